"""Dead letters: records that could not be processed, and their errors."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

import msgspec

from millstream.broker import Broker
from millstream.errors import DefinitionError, OffsetOutOfRangeError
from millstream.records import Record, TopicPartition
from millstream.views.records import beginning_offsets, end_offsets, read_rounds, topic_partitions

_ERROR_HEADER = re.compile(r"__(?:streams|millstream|dlq)\.errors\.(\w+)")


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True):
    """A dead letter; ``partition`` and ``offset`` are its own position, ``origin`` is that of the failed record."""

    partition: int
    offset: int
    timestamp: int
    origin: str
    """``topic[partition]@offset``."""
    topic: str
    origin_partition: int
    stage: str
    node: str
    error: str
    message: str
    stacktrace: str
    record: Record
    """Raw key and value, with the original timestamp and headers of the record."""

    @property
    def position(self) -> str:
        """The position as it is written on the command line, such as ``0@17``."""
        return f"{self.partition}@{self.offset}"

    @classmethod
    def of(cls, record: Record) -> DeadLetter:
        """Read the error headers of a record in a dead letter topic."""
        facts = {
            match[1]: (value or b"").decode("utf-8", "replace")
            for name, value in record.headers
            if (match := _ERROR_HEADER.fullmatch(name))
        }
        headers = tuple((name, value) for name, value in record.headers if not _ERROR_HEADER.fullmatch(name))
        topic, partition = facts.get("topic", ""), facts.get("partition", "-1")
        return cls(
            partition=record.partition,
            offset=record.offset,
            timestamp=record.timestamp,
            origin=f"{topic}[{partition}]@{facts.get('offset', '?')}",
            topic=topic,
            origin_partition=int(partition) if re.fullmatch(r"[0-9]{1,9}", partition) else -1,
            stage=facts.get("stage", ""),
            node=facts.get("node", ""),
            error=facts.get("exception", ""),
            message=facts.get("message", ""),
            stacktrace=facts.get("stacktrace", ""),
            record=msgspec.structs.replace(record, headers=headers, timestamp=_source_timestamp(record, facts)),
        )


def _source_timestamp(record: Record, facts: dict[str, str]) -> int:
    """Return the timestamp of the failed record; that of its dead letter may be of the step that failed."""
    text = facts.get("timestamp", "")
    return int(text) if re.fullmatch(r"[0-9]{1,15}", text) else record.timestamp


def read_dead_letters(broker: Broker, topic: str, *, newest: int | None = None) -> Iterator[DeadLetter]:
    """Yield the dead letters of a topic in time order; ``newest`` limits them to the last ones of each partition."""
    partitions = topic_partitions(broker, (topic,), None)
    starts = beginning_offsets(broker, partitions)
    if newest is not None:
        ends = end_offsets(broker, partitions)
        starts = {partition: max(start, ends[partition] - newest) for partition, start in starts.items()}
    for records in read_rounds(broker, starts, follow=False, grow=False):
        yield from map(DeadLetter.of, records)


def read_dead_letter(broker: Broker, topic: str, position: str) -> DeadLetter:
    """Return the dead letter at a position such as ``0@17``."""
    match = re.fullmatch(r"(\d{1,9})@(\d{1,18})", position)
    if match is None:
        raise DefinitionError(
            f"{position!r} is not a valid position of a dead letter", hint="write PARTITION@OFFSET, such as 0@17"
        )
    partition, offset = TopicPartition(topic, int(match[1])), int(match[2])
    if partition.partition < broker.topic(topic).partitions:
        bounds = broker.offsets(topic)[partition.partition]
        if bounds.begin <= offset < bounds.end:
            for records in read_rounds(broker, {partition: offset}, follow=False, grow=False):
                for record in islice(records, 1):
                    if record.offset == offset:
                        return DeadLetter.of(record)
    raise OffsetOutOfRangeError(
        f"there is no dead letter {position} in {topic!r}", hint="see: millstream dlq list", topic=topic
    )
