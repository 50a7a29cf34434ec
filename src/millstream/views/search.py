"""Look for records in a topic: from an end, an offset or a time, forwards or backwards, within a bounded effort."""

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
from millstream.views.records import at_ends, at_time, partitions_of, records_between

Direction = Literal["older", "newer"]
_CURSOR = re.compile(r"\d{1,6}:\d{1,18}(,\d{1,6}:\d{1,18})*")
_FIRST_STEP, _LONGEST_STEP = 200, 10_000
_CHECK_EVERY = 256


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """Records in the order of the search; ``positions`` is where it goes on, ``looked_at`` how many it has read."""

    records: list[Record]
    positions: dict[TopicPartition, int]
    is_exhausted: bool
    is_out_of_time: bool
    looked_at: int


def start_of(broker: Broker, topic: str, partition: int | None, start: str) -> dict[TopicPartition, int]:
    """Return where a search begins: ``earliest``, ``latest``, an offset, a time, or a cursor such as ``0:17,1:20``."""
    partitions = partitions_of(broker, (topic,), partition)
    if start in ("earliest", "latest"):
        return at_ends(broker, partitions, end=start == "latest")
    if _CURSOR.fullmatch(start):
        pairs = (one.partition(":") for one in start.split(","))
        given = {int(partition): int(offset) for partition, _, offset in pairs}
        begins = at_ends(broker, partitions, end=False)
        return {at: given.get(at.partition, begins[at]) for at in partitions}
    if re.fullmatch(r"\d{1,18}", start):
        return dict.fromkeys(partitions, int(start))
    timestamp = parse_timestamp(start)
    if timestamp is None:
        raise DefinitionError(
            f"{start!r} is no place in a topic",
            hint='write earliest, latest, an offset, "2025-01-31T12:00" or, for a time ago, "10 min"',
        )
    return at_time(broker, partitions, timestamp)


def cursor_of(positions: Mapping[TopicPartition, int]) -> str:
    """Return positions as text that ``start_of`` understands.

    >>> cursor_of({TopicPartition("t", 0): 17, TopicPartition("t", 1): 20})
    '0:17,1:20'
    """
    return ",".join(f"{at.partition}:{offset}" for at, offset in sorted(positions.items()))


def search(
    broker: Broker,
    positions: Mapping[TopicPartition, int],
    direction: Direction,
    *,
    limit: int,
    seconds: float,
    is_wanted: Callable[[Record], bool] | None = None,
) -> Found:
    """Return up to ``limit`` wanted records, in the order of time as far as that of each partition allows."""
    topic = next(iter(positions)).topic
    there = broker.offsets(topic)
    bounds = {at: there[at.partition] for at in positions}
    now = {at: min(max(offset, bounds[at].begin), bounds[at].end) for at, offset in positions.items()}
    older = direction == "older"
    feeds = [
        _backwards(broker, at, bounds[at].begin, offset)
        if older
        else records_between(broker, at, offset, bounds[at].end)
        for at, offset in now.items()
    ]
    deadline = time.monotonic() + seconds
    found: list[Record] = []
    looked_at, is_out_of_time = 0, False
    for record in heapq.merge(*feeds, key=lambda one: -one.timestamp if older else one.timestamp):
        looked_at += 1
        now[TopicPartition(topic, record.partition)] = record.offset if older else record.offset + 1
        if is_wanted is None or is_wanted(record):
            found.append(record)
        if len(found) == limit:
            break
        if looked_at % _CHECK_EVERY == 0 and time.monotonic() > deadline:
            is_out_of_time = True
            break
    ends = {at: bounds[at].begin if older else bounds[at].end for at in now}
    is_exhausted = now == ends or (len(found) < limit and not is_out_of_time)
    return Found(
        records=found,
        positions=now,
        is_exhausted=is_exhausted,
        is_out_of_time=is_out_of_time,
        looked_at=looked_at,
    )


def _backwards(broker: Broker, at: TopicPartition, begin: int, end: int) -> Iterator[Record]:
    """Yield records from the last one before ``end`` down to the first."""
    step = _FIRST_STEP
    while end > begin:
        start = max(begin, end - step)
        yield from reversed(list(records_between(broker, at, start, end)))
        end, step = start, min(2 * step, _LONGEST_STEP)
