"""Dead letters: records that could not be processed, and why."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

import msgspec

from millstream.broker import Broker
from millstream.errors import DefinitionError, OffsetOutOfRangeError
from millstream.records import Record, TopicPartition
from millstream.views.records import at_ends, partitions_of, rounds

_ERROR = re.compile(r"__(?:streams|millstream)\.errors\.(\w+)")


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True):
    """A dead letter; ``partition`` and ``offset`` are its own place, ``origin`` is where the record came from."""

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
    """Raw key and value, with the headers that the record had itself."""

    @property
    def place(self) -> str:
        """How a letter is named on the command line."""
        return f"{self.partition}@{self.offset}"

    @classmethod
    def of(cls, record: Record) -> DeadLetter:
        """Read what the headers of a record in a dead letter topic tell."""
        told = {
            found[1]: (value or b"").decode("utf-8", "replace")
            for name, value in record.headers
            if (found := _ERROR.fullmatch(name))
        }
        own = tuple((name, value) for name, value in record.headers if not _ERROR.fullmatch(name))
        topic, partition = told.get("topic", ""), told.get("partition", "-1")
        return cls(
            partition=record.partition,
            offset=record.offset,
            timestamp=record.timestamp,
            origin=f"{topic}[{partition}]@{told.get('offset', '?')}",
            topic=topic,
            origin_partition=int(partition) if re.fullmatch(r"[0-9]{1,9}", partition) else -1,
            stage=told.get("stage", ""),
            node=told.get("node", ""),
            error=told.get("exception", ""),
            message=told.get("message", ""),
            stacktrace=told.get("stacktrace", ""),
            record=msgspec.structs.replace(record, headers=own),
        )


def letters_in(broker: Broker, topic: str, *, newest: int | None = None) -> Iterator[DeadLetter]:
    """Yield the dead letters of a topic by time; with ``newest`` only the last ones of each partition."""
    partitions = partitions_of(broker, (topic,), None)
    begins, ends = at_ends(broker, partitions, end=False), at_ends(broker, partitions, end=True)
    starts = {at: begins[at] if newest is None else max(begins[at], ends[at] - newest) for at in partitions}
    for records in rounds(broker, starts, follow=False, grow=False):
        yield from map(DeadLetter.of, records)


def letter_at(broker: Broker, topic: str, place: str) -> DeadLetter:
    """Return the letter that a place such as ``0@17`` names."""
    found = re.fullmatch(r"(\d{1,9})@(\d{1,18})", place)
    if found is None:
        raise DefinitionError(f"{place!r} is no place of a dead letter", hint="write PARTITION@OFFSET, such as 0@17")
    at, offset = TopicPartition(topic, int(found[1])), int(found[2])
    if at.partition < broker.topic(topic).partitions:
        there = broker.offsets(topic)[at.partition]
        if there.begin <= offset < there.end:
            for records in rounds(broker, {at: offset}, follow=False, grow=False):
                for record in islice(records, 1):
                    if record.offset == offset:
                        return DeadLetter.of(record)
    raise OffsetOutOfRangeError(
        f"there is no dead letter {place} in {topic!r}", hint="see: millstream dlq list", topic=topic
    )
