"""The marker: the last sequence published under a producer name, stored as committed offsets of a dedicated group.

It is written in the same transaction as the records, so that both are committed or neither. The committed offset is
the sequence plus one; the metadata contains the lineage.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec
from confluent_kafka import TopicPartition

from millstream.broker import Output
from millstream.errors import StateError

GROUP_SUFFIX = ".eos"
_VERSION = 1


class ProducerIdentity(NamedTuple):
    """A stable producer name, and the lineage in which its sequences are counted."""

    name: str
    lineage: str

    @classmethod
    def of(cls, producer: str) -> ProducerIdentity:
        """Parse ``LINEAGE@NAME``; a plain name has no lineage."""
        lineage, separator, name = producer.rpartition("@")
        return cls(name, lineage if separator else "")

    @property
    def transactional_id(self) -> str:
        return self.name

    @property
    def group(self) -> str:
        """The group that stores the marker: one per name, since Kafka only accepts offsets of existing partitions."""
        return self.name + GROUP_SUFFIX


class Marker(msgspec.Struct, frozen=True, kw_only=True):
    """The last sequence that was published."""

    v: int = _VERSION
    lineage: str
    sequence: int
    rows: int


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Marker).decode


def marker_partitions(outputs: Sequence[Output]) -> list[TopicPartition]:
    """Return the partitions whose committed offsets store the marker: partition 0 of each topic that is written.

    A repeated sequence has the same records, so the marker is looked up at the same partitions.
    """
    return [TopicPartition(topic, 0) for topic in sorted({output.topic for output in outputs})]


def marker_offsets(marker: Marker, outputs: Sequence[Output]) -> list[TopicPartition]:
    """Return the offsets to commit for a marker."""
    metadata, offset = _encode(marker).decode(), marker.sequence + 1
    return [
        TopicPartition(partition.topic, partition.partition, offset, metadata=metadata)
        for partition in marker_partitions(outputs)
    ]


def newest_marker(offsets: Iterable[TopicPartition]) -> Marker | None:
    """Return the newest marker among committed offsets."""
    markers = [_decode(entry.metadata) for entry in offsets if entry.offset >= 0 and entry.metadata]
    return max(markers, key=lambda marker: marker.sequence, default=None)


def is_own_marker_pending(acknowledged: Marker | None, stable: Marker | None) -> bool:
    """Whether a pending marker, which cannot be read, is the one whose commit was acknowledged to this process.

    If a broker dies while a transaction is completed, Kafka 4 may lose the completion for the offsets of a group. The
    offsets then stay pending until the next transaction with the same transactional id completes. Only the process
    that received the acknowledgement can start that transaction. If the newest stable marker is older than the
    acknowledged one, the pending marker is the acknowledged one, and it is the newest.
    """
    if acknowledged is None:
        return False
    return stable is None or (stable.lineage == acknowledged.lineage and stable.sequence < acknowledged.sequence)


def is_published(marker: Marker | None, identity: ProducerIdentity, sequence: int) -> bool:
    """Whether a sequence has been published; a marker of another lineage is an error, since both count from one."""
    if marker is None:
        return False
    if marker.lineage != identity.lineage:
        raise StateError(
            f"{identity.name!r} has already published to Kafka, with a different state than the current one",
            hint="either the same app runs on another host, or its state was deleted and its output is already in the "
            f"topics; to publish it again, delete the marker: millstream groups delete {identity.group}",
            group=identity.group,
        )
    return marker.sequence >= sequence
