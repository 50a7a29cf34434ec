"""Search a topic for records: from an end, an offset or a time, forwards or backwards, within a time limit."""

from __future__ import annotations

import heapq
import re
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Literal

import msgspec

from millstream.broker import Broker
from millstream.errors import DefinitionError
from millstream.foundation.times import parse_timestamp
from millstream.records import Record, TopicPartition
from millstream.views.records import (
    beginning_offsets,
    end_offsets,
    offsets_for_time,
    read_range,
    record_bytes,
    topic_partitions,
)

Direction = Literal["older", "newer"]
_CURSOR = re.compile(r"\d{1,6}:\d{1,18}(,\d{1,6}:\d{1,18})*")
_FIRST_STEP, _MAX_STEP = 200, 10_000
_SEARCH_BYTES = 64 * 1024 * 1024
_STEPS_BYTES = 16 * 1024 * 1024
"""The most bytes that the current steps of all partitions hold, when reading backwards."""


class SearchResult(msgspec.Struct, frozen=True, kw_only=True):
    """Records in search order; the search continues at ``positions``; ``scanned`` is the number of records read.

    ``has_timed_out`` also means that the search has read as many bytes as one search may read.
    """

    records: list[Record]
    positions: dict[TopicPartition, int]
    is_exhausted: bool
    has_timed_out: bool
    scanned: int


def start_positions(broker: Broker, topic: str, partition: int | None, start: str) -> dict[TopicPartition, int]:
    """Parse the start of a search: ``earliest``, ``latest``, an offset, a time, or a cursor such as ``0:17,1:20``."""
    partitions = topic_partitions(broker, (topic,), partition)
    if start == "earliest":
        return beginning_offsets(broker, partitions)
    if start == "latest":
        return end_offsets(broker, partitions)
    if _CURSOR.fullmatch(start):
        pairs = (pair.partition(":") for pair in start.split(","))
        offsets = {int(number): int(offset) for number, _, offset in pairs}
        beginnings = beginning_offsets(broker, partitions)
        return {partition: offsets.get(partition.partition, begin) for partition, begin in beginnings.items()}
    if re.fullmatch(r"\d{1,18}", start):
        return dict.fromkeys(partitions, int(start))
    timestamp = parse_timestamp(start)
    if timestamp is None:
        raise DefinitionError(
            f"{start!r} is not a valid position in a topic",
            hint='write earliest, latest, an offset, "2025-01-31T12:00" or, for a time ago, "10 min"',
        )
    return offsets_for_time(broker, partitions, timestamp)


def format_cursor(positions: Mapping[TopicPartition, int]) -> str:
    """Return positions as text that ``start_positions`` can parse.

    >>> format_cursor({TopicPartition("t", 0): 17, TopicPartition("t", 1): 20})
    '0:17,1:20'
    """
    return ",".join(f"{partition.partition}:{offset}" for partition, offset in sorted(positions.items()))


def search(
    broker: Broker,
    positions: Mapping[TopicPartition, int],
    direction: Direction,
    *,
    limit: int,
    seconds: float,
    predicate: Callable[[Record], bool] | None = None,
) -> SearchResult:
    """Return up to ``limit`` matching records, sorted by timestamp as far as the order in each partition allows.

    A search ends after ``seconds``, or after it has read 64 MiB.
    """
    topic = next(iter(positions)).topic
    offsets = broker.offsets(topic)
    bounds = {partition: offsets[partition.partition] for partition in positions}
    reached = {
        partition: min(max(offset, bounds[partition].begin), bounds[partition].end)
        for partition, offset in positions.items()
    }
    is_backwards = direction == "older"
    sequences = [
        _read_backwards(broker, partition, bounds[partition].begin, offset, _STEPS_BYTES // len(reached))
        if is_backwards
        else read_range(broker, partition, offset, bounds[partition].end)
        for partition, offset in reached.items()
    ]
    deadline = time.monotonic() + seconds
    matches: list[Record] = []
    scanned, scanned_bytes, has_timed_out = 0, 0, False
    for record in heapq.merge(*sequences, key=lambda record: -record.timestamp if is_backwards else record.timestamp):
        scanned += 1
        scanned_bytes += record_bytes(record)
        reached[TopicPartition(topic, record.partition)] = record.offset if is_backwards else record.offset + 1
        if predicate is None or predicate(record):
            matches.append(record)
        if len(matches) == limit:
            break
        if scanned_bytes > _SEARCH_BYTES or time.monotonic() > deadline:
            has_timed_out = True
            break
    ends = {partition: bounds[partition].begin if is_backwards else bounds[partition].end for partition in reached}
    is_exhausted = reached == ends or (len(matches) < limit and not has_timed_out)
    return SearchResult(
        records=matches,
        positions=reached,
        is_exhausted=is_exhausted,
        has_timed_out=has_timed_out,
        scanned=scanned,
    )


def _read_backwards(
    broker: Broker, partition: TopicPartition, begin: int, end: int, max_bytes: int
) -> Iterator[Record]:
    """Yield the records before ``end`` from the last to the first, in steps of up to ``max_bytes`` or one record."""
    step = _FIRST_STEP
    while end > begin:
        start = max(begin, end - step)
        records, size = _read_step(broker, partition, start, end, max_bytes)
        if records is None:
            step = max(1, (end - start) // 4)
            continue
        yield from reversed(records)
        end = start
        if size < max_bytes // 4:
            step = min(2 * step, _MAX_STEP)


def _read_step(
    broker: Broker, partition: TopicPartition, start: int, end: int, max_bytes: int
) -> tuple[list[Record] | None, int]:
    """Return the records of a range with their size; None instead of several records that are too large together."""
    records: list[Record] = []
    size = 0
    for record in read_range(broker, partition, start, end):
        size += record_bytes(record)
        if size > max_bytes and end - start > 1:
            return None, size
        records.append(record)
    return records, size
