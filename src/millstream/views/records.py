"""Read the records of several partitions as one sequence, once or continuously."""

from __future__ import annotations

import heapq
from collections.abc import Generator, Iterator, Mapping
from itertools import repeat

from millstream.broker import Broker
from millstream.errors import DefinitionError, OffsetOutOfRangeError
from millstream.foundation.blocks import headers_of
from millstream.records import Record, TopicPartition

_WAIT_SECONDS = 1.0  # how long to wait for records before looking for new partitions


def topic_partitions(broker: Broker, topics: tuple[str, ...], partition: int | None) -> list[TopicPartition]:
    """Return all partitions of the topics, or only partition ``partition`` of each."""
    partitions = []
    for topic in dict.fromkeys(topics):
        count = broker.topic(topic).partitions
        if partition is not None and partition >= count:
            raise DefinitionError(f"topic {topic!r} has no partition {partition}", hint=f"it has 0 to {count - 1}")
        partitions += [TopicPartition(topic, number) for number in (range(count) if partition is None else [partition])]
    return partitions


def beginning_offsets(broker: Broker, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
    """Return the offset of the first record of each partition."""
    offsets = {topic: broker.offsets(topic) for topic in {partition.topic for partition in partitions}}
    return {partition: offsets[partition.topic][partition.partition].begin for partition in partitions}


def end_offsets(broker: Broker, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
    """Return the offset after the last record of each partition."""
    offsets = {topic: broker.offsets(topic) for topic in {partition.topic for partition in partitions}}
    return {partition: offsets[partition.topic][partition.partition].end for partition in partitions}


def offsets_for_time(broker: Broker, partitions: list[TopicPartition], timestamp: int) -> dict[TopicPartition, int]:
    """Return the offset of the first record at ``timestamp`` or later in each partition, its end if there is none."""
    ends = end_offsets(broker, partitions)
    offsets = {partition: broker.offset_at(partition.topic, partition.partition, timestamp) for partition in partitions}
    return {partition: ends[partition] if offset is None else offset for partition, offset in offsets.items()}


def checked_offset(broker: Broker, partition: TopicPartition, offset: int) -> dict[TopicPartition, int]:
    """Return a valid offset of a partition; a negative one counts from the end, down to the beginning."""
    bounds = broker.offsets(partition.topic)[partition.partition]
    if offset < 0:
        return {partition: max(bounds.begin, bounds.end + offset)}
    if not bounds.begin <= offset <= bounds.end:
        has_records = bounds.end > bounds.begin
        raise OffsetOutOfRangeError(
            f"{partition.topic}[{partition.partition}] has no offset {offset}",
            hint=f"it has records from {bounds.begin} to {bounds.end - 1}" if has_records else "it is empty",
            topic=partition.topic,
            partition=partition.partition,
            offset=offset,
        )
    return {partition: offset}


def read_rounds(
    broker: Broker, positions: Mapping[TopicPartition, int], *, follow: bool, grow: bool
) -> Generator[Iterator[Record], None, None]:
    """Yield the current records, then, with ``follow``, those that arrive later, in rounds.

    With ``grow`` the records of new partitions are included. Within a round records are sorted by timestamp, as far as
    the order in each partition allows.
    """
    positions = dict(positions)
    while True:
        ends = end_offsets(broker, list(positions))
        ranges = (read_range(broker, partition, start, ends[partition]) for partition, start in positions.items())
        yield heapq.merge(*ranges, key=_timestamp)
        if not follow:
            return
        positions = ends
        while not broker.wait(positions, _WAIT_SECONDS):
            if grow:
                topics = tuple({partition.topic for partition in positions})
                positions = {**beginning_offsets(broker, topic_partitions(broker, topics, None)), **positions}


def read_range(broker: Broker, partition: TopicPartition, start: int, end: int) -> Iterator[Record]:
    """Yield the records with ``start <= offset < end`` that still exist."""
    if start >= end:
        return
    start = max(start, broker.offsets(partition.topic)[partition.partition].begin)  # retention may have deleted some
    if start >= end:
        return
    for chunk in broker.read(partition.topic, partition.partition, start, end):
        keys, values, times = (chunk.block.column(column).to_pylist() for column in range(3))
        headers = headers_of(chunk.block) or repeat(())
        for offset, key, value, time, header in zip(chunk.offsets, keys, values, times, headers, strict=False):
            yield Record(partition.topic, partition.partition, int(offset), key, value, time, header)


def record_bytes(record: Record) -> int:
    """Return the size of a record: key, value and headers."""
    headers = sum(len(name) + len(value or b"") for name, value in record.headers)
    return len(record.key or b"") + len(record.value or b"") + headers


def _timestamp(record: Record) -> int:
    return record.timestamp
