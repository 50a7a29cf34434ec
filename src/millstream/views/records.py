"""Records of several partitions in one sequence, for as long as somebody wants to see them."""

from __future__ import annotations

import heapq
from collections.abc import Generator, Iterator, Mapping
from itertools import repeat

from millstream.broker import Broker
from millstream.errors import DefinitionError, OffsetOutOfRangeError
from millstream.foundation.blocks import headers_of
from millstream.records import Record, TopicPartition

_NAP_SECONDS = 1.0  # how long a wait lasts before we look for new partitions


def partitions_of(broker: Broker, topics: tuple[str, ...], partition: int | None) -> list[TopicPartition]:
    """Return all partitions of the topics, or the one that was asked for of each."""
    found = []
    for topic in dict.fromkeys(topics):
        count = broker.topic(topic).partitions
        if partition is not None and partition >= count:
            raise DefinitionError(f"topic {topic!r} has no partition {partition}", hint=f"it has 0 to {count - 1}")
        found += [TopicPartition(topic, one) for one in (range(count) if partition is None else [partition])]
    return found


def at_ends(broker: Broker, partitions: list[TopicPartition], end: bool) -> dict[TopicPartition, int]:
    """Return the end of each partition, or its beginning."""
    there = {topic: broker.offsets(topic) for topic in {at.topic for at in partitions}}
    bounds = {at: there[at.topic][at.partition] for at in partitions}
    return {at: one.end if end else one.begin for at, one in bounds.items()}


def at_time(broker: Broker, partitions: list[TopicPartition], timestamp: int) -> dict[TopicPartition, int]:
    """Return where records of ``timestamp`` or later begin, the end where there are none."""
    ends = at_ends(broker, partitions, end=True)
    found = {at: broker.offset_at(at.topic, at.partition, timestamp) for at in partitions}
    return {at: ends[at] if offset is None else offset for at, offset in found.items()}


def at_offset(broker: Broker, at: TopicPartition, offset: int) -> dict[TopicPartition, int]:
    """Return an offset if there is such; a negative one counts from the end and stops at the beginning."""
    there = broker.offsets(at.topic)[at.partition]
    if offset < 0:
        return {at: max(there.begin, there.end + offset)}
    if not there.begin <= offset <= there.end:
        raise OffsetOutOfRangeError(
            f"{at.topic}[{at.partition}] has no offset {offset}",
            hint=f"it has records from {there.begin} to {there.end - 1}" if there.end > there.begin else "it is empty",
            topic=at.topic,
            partition=at.partition,
            offset=offset,
        )
    return {at: offset}


def rounds(
    broker: Broker, positions: Mapping[TopicPartition, int], *, follow: bool, grow: bool
) -> Generator[Iterator[Record], None, None]:
    """Yield what is there now, then, if we follow, what has come since, and so on; with ``grow`` of new partitions too.

    Within a round records come in the order of time as far as the order in each partition allows.
    """
    now = dict(positions)
    while True:
        ends = at_ends(broker, list(now), end=True)
        yield heapq.merge(*(records_between(broker, at, start, ends[at]) for at, start in now.items()), key=_time)
        if not follow:
            return
        now = ends
        while not broker.wait(now, _NAP_SECONDS):
            if grow:
                topics = tuple({at.topic for at in now})
                now = {**at_ends(broker, partitions_of(broker, topics, None), end=False), **now}


def records_between(broker: Broker, at: TopicPartition, start: int, end: int) -> Iterator[Record]:
    """Yield the records ``start <= offset < end`` that are still there."""
    if start >= end:
        return
    begin = broker.offsets(at.topic)[at.partition].begin  # retention may have overtaken us
    if max(start, begin) >= end:
        return
    for chunk in broker.read(at.topic, at.partition, max(start, begin), end):
        keys, values, times = (chunk.block.column(column).to_pylist() for column in range(3))
        headers = headers_of(chunk.block) or repeat(())
        for offset, key, value, time, header in zip(chunk.offsets, keys, values, times, headers, strict=False):
            yield Record(at.topic, at.partition, int(offset), key, value, time, header)


def _time(record: Record) -> int:
    return record.timestamp
