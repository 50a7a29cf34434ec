"""Choose the ranges of the next batch.

With a backlog the ranges end at the same event time in all partitions, so that a task never sees one partition run
ahead of another and take its records for late: a replay gives what the live run gave.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Sequence
from types import MappingProxyType

from millstream.batch.batch import Batch, Progress
from millstream.batch.idle import IdleInputs
from millstream.batch.timers import TimedTasks, due_tasks, next_due
from millstream.broker import Broker, Offsets
from millstream.errors import OffsetOutOfRangeError
from millstream.records import TopicPartition
from millstream.task.task_input import Range
from millstream.windows import FOREVER

_MOST_FIXED = 0.9  # of a batch's time, however the line falls
_MOST_ROOM = 2.0  # for records, in target times
_REMEMBERED = 0.7
_LEAST_SPREAD = 0.1
_SMALLEST_BATCH = 1_000
_NEVER = 2**63 - 1


class BatchSize:
    """How many records a batch may take, so that it takes about as long as wanted.

    A batch costs something whatever its size: taking fewer records does not make that less. So this part is told from
    what the records cost, and where it takes most of the wanted time, records are given as much time again.
    """

    def __init__(self, most: int, target_seconds: float) -> None:
        self.most_records = most
        self._target = target_seconds
        self._fixed = 0.0
        self._has_started = False
        self._sums = [0.0] * 5
        """Of weights, records, seconds, records squared and records times seconds, the last batches counting most."""
        self.records = min(most, 50_000)

    def adapt(self, records: int, seconds: float) -> None:
        """Learn from a batch; a small one says little about large ones."""
        if records < self.records // 2 or seconds <= 0:
            return
        has_started, self._has_started = self._has_started, True
        if not has_started and seconds > self._target:
            return  # the first batch waits for the workers to start, which has nothing to do with its size
        self._learn(records, seconds)
        fixed = min(self._fixed, _MOST_FIXED * seconds)
        room = max(self._target - fixed, self._target / 2, min(fixed, _MOST_ROOM * self._target))
        wanted = int(room * records / (seconds - fixed))
        bounded = max(self.records // 2, min(wanted, self.records * 2))
        self.records = min(self.most_records, max(_SMALLEST_BATCH, bounded))

    def _learn(self, records: int, seconds: float) -> None:
        """Draw the straight line through the last batches; what it says of no records is the fixed part."""
        sample = (1.0, records, seconds, records * records, records * seconds)
        self._sums = [_REMEMBERED * old + new for old, new in zip(self._sums, sample, strict=True)]
        weight, by_records, by_seconds, squares, products = self._sums
        mean, mean_seconds = by_records / weight, by_seconds / weight
        spread = squares / weight - mean * mean
        if spread > (_LEAST_SPREAD * mean) ** 2:
            slope = (products / weight - mean * mean_seconds) / spread
            self._fixed = max(0.0, mean_seconds - max(0.0, slope) * mean)


def wall_clock() -> int:
    """Return the time in milliseconds since 1970."""
    return time.time_ns() // 1_000_000


class Planner:
    """Plans batches over the source topics of an app, which are gone through anew for each."""

    def __init__(
        self,
        broker: Broker,
        topics: Iterable[str],
        size: BatchSize,
        *,
        timed: TimedTasks = MappingProxyType({}),
        whole: Collection[str] = frozenset(),
        idle: IdleInputs | None = None,
        clock: Callable[[], int] = wall_clock,
        partitions_read: Callable[[str], int | None] = lambda _topic: None,
    ) -> None:
        """Topics in ``whole`` are those of global tables: each batch reads all there is, whatever its time.

        ``partitions_read`` says how many partitions of a topic have tasks; None means all, however many there are.
        """
        self._partitions_read = partitions_read
        self.unread_partitions: dict[str, tuple[int, int]] = {}
        """By topic the number of partitions that have tasks and the larger number that the broker has by now."""
        self.broker = broker
        self._topics = topics
        self._size = size
        self._timed = timed
        self._idle_inputs = idle
        self._whole = whole
        self._clock = clock

    def backlog(self, progress: Progress) -> list[Range]:
        """Return everything that could be read now."""
        found: list[Range] = []
        for topic in self._topics:
            for partition, offsets in enumerate(self._offsets(topic)):
                start = progress.position(topic, partition)
                if start is not None and start > offsets.end:
                    raise OffsetOutOfRangeError(
                        f"{topic}[{partition}] ends at {offsets.end}, but {start} records of it were already processed",
                        hint="the topic was deleted and created again; reset the app to start over",
                        topic=topic,
                    )
                start = offsets.begin if start is None else max(start, offsets.begin)
                if start < offsets.end:
                    found.append(Range(topic, partition, start, offsets.end))
        return found

    def positions(self, progress: Progress) -> dict[TopicPartition, int]:
        """Return for each partition the offset from which new records are waited for."""
        return {
            TopicPartition(topic, partition): max(progress.position(topic, partition) or 0, offsets.begin)
            for topic in self._topics
            for partition, offsets in enumerate(self._offsets(topic))
        }

    def _offsets(self, topic: str) -> list[Offsets]:
        """Return the offsets of the partitions that have tasks; others must never become part of a batch."""
        offsets, count = self.broker.offsets(topic), self._partitions_read(topic)
        if count is not None and len(offsets) > count:
            self.unread_partitions[topic] = count, len(offsets)
        return offsets[:count]

    def has_other_topics(self, positions: Collection[TopicPartition]) -> bool:
        """Whether topics have come or gone since ``positions`` were looked up."""
        return {one.topic for one in positions} != set(self._topics)

    def plan(self, progress: Progress) -> Batch | None:
        """Return the next batch, or None if there is nothing to read and no timer is due."""
        return self.choose(progress, self.backlog(progress))

    def choose(self, progress: Progress, backlog: list[Range], *, idle: bool = True) -> Batch | None:
        """Return the next batch out of what could be read; one for timers alone only if that is ``idle``."""
        now = self._clock()
        due = due_tasks(self._timed, progress, now)
        ticks = self._idle_inputs.due(progress, backlog, now) if self._idle_inputs and idle else {}
        if not backlog and not (idle and (due or ticks)):
            return None
        ranges = backlog
        if self.is_too_much(backlog):
            parted = [one for one in backlog if one.topic not in self._whole]
            whole = [one for one in backlog if one.topic in self._whole]
            ranges = whole + self._aligned(parted, shares(parted, self._size.records))
        return self.batch(progress, ranges, timers=due, ticks=ticks)

    def batch(
        self,
        progress: Progress,
        ranges: Sequence[Range] = (),
        *,
        timers: tuple[str, ...] = (),
        ticks: dict[str, int] | None = None,
    ) -> Batch:
        """Return a batch with these ranges, timers and ticks, as of now."""
        return Batch(
            number=progress.done + 1,
            wall_time=self._clock(),
            ranges=tuple(ranges),
            timers=timers,
            ticks=ticks or {},
            watches=bool(self._idle_inputs),
            global_tables=self._global_tables(progress, ranges),
        )

    def _global_tables(self, progress: Progress, ranges: Sequence[Range]) -> dict[str, tuple[int, ...]]:
        """Return the offsets up to which global tables go in a batch, also of those that it does not change."""
        stops = {(one.topic, one.partition): one.stop for one in ranges}
        return {
            topic: tuple(
                stops.get((topic, partition), progress.position(topic, partition) or 0)
                for partition in range(len(self.broker.offsets(topic)))
            )
            for topic in self._whole
        }

    def adapt(self, records: int, seconds: float) -> None:
        """Adapt the size of the next batches to how long a batch took."""
        self._size.adapt(records, seconds)

    def seconds_to_timer(self, progress: Progress) -> float:
        """Return how long it is until a timer is due, or an input counts as idle."""
        silent = self._idle_inputs.next_due(progress) if self._idle_inputs else FOREVER
        return max(0.0, (min(next_due(self._timed, progress), silent) - self._clock()) / 1000)

    def is_too_much(self, backlog: list[Range]) -> bool:
        """Whether a backlog is more than one batch takes."""
        return records_in(one for one in backlog if one.topic not in self._whole) > self._size.records

    def _aligned(self, backlog: list[Range], shares: list[int]) -> list[Range]:
        """Cut where the first partition that has to wait ends, in event time."""
        cuts = [one.start + share for one, share in zip(backlog, shares, strict=True)]
        times = [self._timestamp_at(one, cut) for one, cut in zip(backlog, cuts, strict=True)]
        horizon = min(times)
        ranges = [
            Range(one.topic, one.partition, one.start, cut if time == horizon else self._cut_at(one, horizon))
            for one, cut, time in zip(backlog, cuts, times, strict=True)
        ]
        return [one for one in ranges if one.stop > one.start]

    def _cut_at(self, one: Range, horizon: int) -> int:
        """Return the first offset of a range whose record is not before the horizon."""
        found = self.broker.offset_at(one.topic, one.partition, horizon)
        if found is None or found >= one.start:
            return one.stop if found is None else min(one.stop, found)
        # a record of the future, processed long ago, hides where the range reaches the horizon
        for chunk in self.broker.read(one.topic, one.partition, one.start, one.stop):
            for offset, timestamp in zip(chunk.offsets, chunk.block.column(2).to_pylist(), strict=True):
                if timestamp >= horizon:
                    return int(offset)
        return one.stop

    def _timestamp_at(self, one: Range, offset: int) -> int:
        """Return the time of the next record from ``offset`` on; offsets may have gaps."""
        found = self.broker.timestamp_at(one.topic, one.partition, offset, one.stop)
        return _NEVER if found is None else found


class SmallPlanner(Planner):
    """Plans small batches only; with a larger backlog it plans none and sets ``too_much``."""

    too_much = False

    def adapt(self, records: int, seconds: float) -> None:
        """Do nothing: a small batch always takes the whole backlog."""

    def choose(self, progress: Progress, backlog: list[Range], *, idle: bool = True) -> Batch | None:
        """Return a batch with the whole backlog, or None if that is nothing or too much."""
        self.too_much = records_in(backlog) > self._size.most_records
        return None if self.too_much else super().choose(progress, backlog, idle=idle)


def records_in(ranges: Iterable[Range]) -> int:
    """Return the most records that ranges can hold."""
    return sum(one.stop - one.start for one in ranges)


def shares(backlog: list[Range], records: int) -> list[int]:
    """Divide the records of a batch over partitions: equal parts, and what one does not need goes to the others."""
    parts = [0] * len(backlog)
    left = records
    waiting = sorted(range(len(backlog)), key=lambda number: backlog[number].stop - backlog[number].start)
    for place, number in enumerate(waiting):
        one = backlog[number]
        parts[number] = min(one.stop - one.start, max(1, left // (len(waiting) - place)))
        left -= parts[number]
    return parts
