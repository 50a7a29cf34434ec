"""Records that a sink cannot write: the error policy applies to them, and what is decided is durable.

Dead letters are appended under the number of the batch, so that a batch that is written again appends none twice.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

import msgspec

from millstream.batch.journal import Journal
from millstream.broker import Broker, TopicConfig
from millstream.errors import ConnectorError, MillstreamError, ProcessingError, TopicExistsError
from millstream.foundation.blocks import rows_of
from millstream.foundation.error_headers import error_headers
from millstream.foundation.stored import decoding
from millstream.foundation.typed_decoding import decode_json
from millstream.operators.runtime import Columns
from millstream.records import Record
from millstream.task.outbox import Outbox, topic_outputs
from millstream.task.policy import OnError, Policies

_REJECTED = b"rejected"


class Rejection(msgspec.Struct, frozen=True, kw_only=True):
    """A record by its position, and why it cannot be written."""

    topic: str
    partition: int
    offset: int
    error: str
    is_decode_error: bool = False

    @property
    def position(self) -> tuple[str, int, int]:
        return self.topic, self.partition, self.offset


class BatchRejections(msgspec.Struct, frozen=True, kw_only=True):
    """The records that were left out of a batch before it was written."""

    batch: int = 0
    rejections: tuple[Rejection, ...] = ()


class RejectionNote:
    """The rejections of the current batch, in the journal of the sink before the rest of the batch is written."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def read(self, batch: int) -> list[Rejection]:
        """Return the rejections of a batch."""
        data = self._journal.note(_REJECTED)
        with decoding(self._journal.path):
            stored = BatchRejections() if data is None else decode_json(data, BatchRejections)
        return list(stored.rejections) if stored.batch == batch else []

    def write(self, batch: int, rejections: Sequence[Rejection]) -> None:
        """Replace the rejections by those of a batch."""
        stored = BatchRejections(batch=batch, rejections=tuple(rejections))
        self._journal.set_note(_REJECTED, msgspec.json.encode(stored))


class SinkPolicies:
    """Applies the error policies of an app to rejections of a sink."""

    def __init__(
        self, broker: Broker, policies: Policies, sink: str, producer: str, new_topic: TopicConfig | None
    ) -> None:
        """Append under the name ``producer``; ``new_topic`` is for a topic of dead letters that does not exist."""
        self._broker = broker
        self._policies = policies
        self._sink = sink
        self._producer = producer
        self._new_topic = new_topic

    def check(self, rejections: Sequence[Rejection]) -> None:
        """Raise if the policy for one of the rejections is to fail.

        If the user has named the topic of dead letters, the record becomes one as well: once, since the name of the
        producer contains its position.
        """
        for rejection in rejections:
            if self._policy_of(rejection) == "fail":
                if self._policies.dead_letter_on_fail:
                    position = ".".join(map(str, rejection.position))
                    self._append(f"{self._producer}.failed.{position}", 1, [rejection])
                raise self._error(rejection)

    def apply(self, batch: int, rejections: Sequence[Rejection]) -> None:
        """Append dead letters for the rejections whose policy says so, once per batch."""
        dead = [rejection for rejection in rejections if self._policy_of(rejection) == "dead_letter"]
        if dead:
            self._append(self._producer, batch, dead)

    def _append(self, producer: str, batch: int, rejections: Sequence[Rejection]) -> None:
        columns = Columns()
        for rejection in rejections:
            self._add(columns, rejection)
        outbox = Outbox()
        outbox.topics[self._policies.dead_letter_topic] = columns
        blocks = outbox.blocks(self._partitions_of, self._partitions_of, batch)
        self._broker.append_once(producer, batch, topic_outputs(blocks))

    def _policy_of(self, rejection: Rejection) -> OnError:
        return self._policies.on_decode_error if rejection.is_decode_error else self._policies.on_error

    def _error(self, rejection: Rejection) -> MillstreamError:
        position = f"{rejection.topic}[{rejection.partition}]@{rejection.offset}"
        policy = "on_decode_error" if rejection.is_decode_error else "on_error"
        return ProcessingError(
            f"sink {self._sink!r} cannot write {position}: {rejection.error}",
            hint=f'{policy}="dead_letter" or "skip" lets it continue without such records',
            node=self._sink,
            topic=rejection.topic,
            partition=rejection.partition,
            offset=rejection.offset,
        )

    def _add(self, columns: Columns, rejection: Rejection) -> None:
        """Add the dead letter of a record: its own bytes and headers, and the reason."""
        record = self._stored(rejection)
        columns.keys.append(record.key)
        columns.values.append(record.value)
        columns.timestamps.append(record.timestamp)
        error = ConnectorError(rejection.error)
        headers = error_headers(
            error, rejection.topic, rejection.partition, rejection.offset, stage=self._sink, node=self._sink
        )
        columns.set_headers((*record.headers, *headers))

    def _stored(self, rejection: Rejection) -> Record[bytes | None, bytes | None]:
        """Read the record as it is in its topic."""
        topic, partition, offset = rejection.position
        for chunk in self._broker.read(topic, partition, offset, offset + 1):
            for row, row_offset in enumerate(chunk.offsets):
                if row_offset == offset:
                    keys, values, timestamps, headers = rows_of(chunk.block.slice(row, 1))
                    return Record(topic, partition, offset, keys[0], values[0], timestamps[0], (headers or [()])[0])
        return Record(topic, partition, offset, None, None, 0)  # retention has deleted it since

    def _partitions_of(self, topic: str) -> int:
        if self._new_topic is not None and topic not in self._broker.topic_names():
            with contextlib.suppress(TopicExistsError):  # another process has just created it
                self._broker.create_topic(topic, self._new_topic)
        return self._broker.topic(topic).partitions
