"""The marker: what a producer name has published so far, kept as committed offsets of a group that nobody joins.

It is written in the transaction that writes the records, so that both are there or neither. The sequence is the
offset; the metadata tells whose it is.
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


class Identity(NamedTuple):
    """Who publishes: a name that stays, and the lineage in which its sequences are counted."""

    name: str
    lineage: str

    @classmethod
    def of(cls, producer: str) -> Identity:
        """Split ``LINEAGE@NAME``; a name alone has no lineage."""
        lineage, at, name = producer.rpartition("@")
        return cls(name, lineage if at else "")

    @property
    def transactional_id(self) -> str:
        return self.name

    @property
    def group(self) -> str:
        """The group that holds the marker: one per name, since offsets are only taken for partitions that exist."""
        return self.name + GROUP_SUFFIX


class Marker(msgspec.Struct, frozen=True, kw_only=True):
    """The last sequence that was published."""

    v: int = _VERSION
    lineage: str
    sequence: int
    rows: int


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Marker).decode


def anchors(outputs: Sequence[Output]) -> list[TopicPartition]:
    """Return where the marker of a publication stands: beside each topic that gets records.

    A sequence that is published again has the same records, so whoever asks for it looks in the right places.
    """
    return [TopicPartition(topic, 0) for topic in sorted({output.topic for output in outputs})]


def marked(marker: Marker, outputs: Sequence[Output]) -> list[TopicPartition]:
    """Return the marker in the form in which it is committed."""
    metadata = _encode(marker).decode()
    places = anchors(outputs)
    return [TopicPartition(each.topic, each.partition, marker.sequence + 1, metadata=metadata) for each in places]


def newest(offsets: Iterable[TopicPartition]) -> Marker | None:
    """Return the newest marker among committed offsets."""
    markers = [_decode(each.metadata) for each in offsets if each.offset >= 0 and each.metadata]
    return max(markers, key=lambda marker: marker.sequence, default=None)


def is_undecided(known: Marker | None, decided: Marker | None) -> bool:
    """Whether a marker that cannot be read is the one that our own commit was answered for.

    Kafka 4 may lose the end of a transaction for the offsets of a group when a broker dies just then: the offset is
    undecided from then on, until the next transaction of the same name ends. Nobody but who has heard the answer can
    begin that one. If what is decided is older than what we know of, the undecided marker is ours, and the newest.
    """
    if known is None:
        return False
    return decided is None or (decided.lineage == known.lineage and decided.sequence < known.sequence)


def is_published(marker: Marker | None, identity: Identity, sequence: int) -> bool:
    """Whether a sequence was published before; a marker of another lineage is an error, since both count from one."""
    if marker is None:
        return False
    if marker.lineage != identity.lineage:
        raise StateError(
            f"{identity.name!r} has published to Kafka before, with another state than the one that runs now",
            hint="either the same app runs elsewhere, or its state was deleted: then its output is in the topics "
            f"already, and to publish it once more delete the marker: millstream groups delete {identity.group}",
            group=identity.group,
        )
    return marker.sequence >= sequence
