"""Choose the ranges of the next batch.

With a backlog the ranges end at the same event time in all partitions. No partition then runs ahead of another and
makes its records late, so a replay gives the same results as the live run.
"""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from types import MappingProxyType

from millstream.batch.batch import Batch, Progress
from millstream.batch.idle import IdleInputs
from millstream.batch.logs import log_event
from millstream.batch.pausing import PausedInputs
from millstream.batch.timers import TimedTasks, due_tasks, next_due
from millstream.broker import Broker, Offsets
from millstream.errors import OffsetOutOfRangeError
from millstream.records import TopicPartition
from millstream.task.task_input import Range
from millstream.windows import FOREVER

_log = logging.getLogger("millstream.planner")
_MAX_FIXED_SHARE = 0.9  # of the time of a batch, whatever the estimate
_MAX_RECORD_TIME = 2.0  # in target times
_DECAY = 0.7
_MIN_SPREAD = 0.1
_MIN_RECORDS = 1_000
_NEVER = 2**63 - 1


class BatchSize:
    """The number of records per batch, adapted so that a batch lasts about ``target_seconds``.

    A batch has a fixed cost that does not depend on its size. It is estimated separately from the cost per record; if
    it takes most of the target time, the records get that much time in addition.
    """

    def __init__(self, max_records: int, target_seconds: float) -> None:
        self.max_records = max_records
        self._target = target_seconds
        self._fixed = 0.0
        self._has_started = False
        self._sums = [0.0] * 5
        """Of weights, records, seconds, records squared and records times seconds; the last batches count most."""
        self.records = min(max_records, 50_000)

    def adapt(self, records: int, seconds: float) -> None:
        """Learn from a batch, unless it is too small to say much about large ones."""
        if records < self.records // 2 or seconds <= 0:
            return
        has_started, self._has_started = self._has_started, True
        if not has_started and seconds > self._target:
            return  # the first batch includes the start of the workers, which does not depend on its size
        self._estimate_fixed_cost(records, seconds)
        fixed = min(self._fixed, _MAX_FIXED_SHARE * seconds)
        record_time = max(self._target - fixed, self._target / 2, min(fixed, _MAX_RECORD_TIME * self._target))
        adapted = int(record_time * records / (seconds - fixed))
        bounded = max(self.records // 2, min(adapted, self.records * 2))
        self.records = min(self.max_records, max(_MIN_RECORDS, bounded))

    def _estimate_fixed_cost(self, records: int, seconds: float) -> None:
        """Fit a line to the last batches, by least squares; its intercept is the fixed cost."""
        sample = (1.0, records, seconds, records * records, records * seconds)
        self._sums = [_DECAY * old + new for old, new in zip(self._sums, sample, strict=True)]
        weight, by_records, by_seconds, squares, products = self._sums
        mean, mean_seconds = by_records / weight, by_seconds / weight
        spread = squares / weight - mean * mean
        if spread > (_MIN_SPREAD * mean) ** 2:
            slope = (products / weight - mean * mean_seconds) / spread
            self._fixed = max(0.0, mean_seconds - max(0.0, slope) * mean)


def wall_clock() -> int:
    """Return the time in milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def _report_deleted(progress: Progress, ranges: Iterable[Range]) -> None:
    """Log records that retention has deleted before they were read."""
    for range_ in ranges:
        position = progress.position(range_.topic, range_.partition)
        if position is not None and position < range_.start:
            facts = {"topic": range_.topic, "partition": range_.partition, "records": range_.start - position}
            log_event(_log, logging.WARNING, "records deleted before they were read", facts)


class Planner:
    """Plans batches over the source topics of an app; it iterates over ``topics`` again for each batch."""

    def __init__(
        self,
        broker: Broker,
        topics: Iterable[str],
        size: BatchSize,
        *,
        timed: TimedTasks = MappingProxyType({}),
        global_topics: Collection[str] = frozenset(),
        idle: IdleInputs | None = None,
        clock: Callable[[], int] = wall_clock,
        partitions_read: Callable[[str], int | None] = lambda _topic: None,
        stops: Callable[[], Mapping[str, int]] | None = None,
        paused: PausedInputs | None = None,
    ) -> None:
        """Plan batches over ``topics``.

        Each batch reads the ``global_topics``, those of global tables, to their end, whatever their timestamps.
        ``partitions_read`` returns how many partitions of a topic have tasks; None means all. ``stops`` returns the
        offsets at which reading ends, by ``topic/partition``.
        """
        self._stops = stops
        self._paused = paused
        self._partitions_read = functools.cache(partitions_read)  # the layout of a planner never changes
        self.unread_partitions: dict[str, tuple[int, int]] = {}
        """By topic, the number of partitions that have tasks and the larger number that the broker has by now."""
        self.broker = broker
        self._topics = topics
        self._last_offsets: dict[str, list[Offsets]] = {}
        self._size = size
        self._timed = timed
        self._idle_inputs = idle
        self._global_topics = global_topics
        self._clock = clock

    def backlog(self, progress: Progress) -> list[Range]:
        """Return everything that could be read now."""
        backlog: list[Range] = []
        stops = None if self._stops is None else self._stops()
        for topic in self._topics:
            for partition, offsets in enumerate(self._offsets(topic, progress)):
                start = progress.position(topic, partition)
                if start is not None and start > offsets.end:
                    raise OffsetOutOfRangeError(
                        f"{topic}[{partition}] ends at {offsets.end}, but {start} records of it were already processed",
                        hint="the topic was deleted and created again; reset the app to start over",
                        topic=topic,
                    )
                start = offsets.begin if start is None else max(start, offsets.begin)
                end = offsets.end if stops is None else min(offsets.end, stops.get(f"{topic}/{partition}", start))
                if start < end:
                    backlog.append(Range(topic, partition, start, end))
        return backlog

    def known_backlog(self, progress: Progress) -> list[Range]:
        """Return what is known to be there; records that have just arrived may be missing."""
        return self.backlog(progress)

    def positions(self, progress: Progress) -> dict[TopicPartition, int]:
        """Return the offset of the next record of each partition, by the offsets of the last backlog."""
        return {
            TopicPartition(topic, partition): max(progress.position(topic, partition) or 0, offsets.begin)
            for topic in self._topics
            for partition, offsets in enumerate(self._last_offsets.get(topic) or self._offsets(topic, progress))
        }

    def _offsets(self, topic: str, _progress: Progress) -> list[Offsets]:
        """Return the offsets of the partitions that have tasks; others must never become part of a batch."""
        offsets, count = self.broker.offsets(topic), self._partitions_read(topic)
        if count is not None and len(offsets) > count:
            self.unread_partitions[topic] = count, len(offsets)
        self._last_offsets[topic] = offsets[:count]
        return self._last_offsets[topic]

    def has_other_topics(self, positions: Collection[TopicPartition]) -> bool:
        """Whether topics were added or removed since ``positions`` were looked up."""
        return {position.topic for position in positions} != set(self._topics)

    def plan(self, progress: Progress) -> Batch | None:
        """Return the next batch, or None if there is nothing to read and no timer is due."""
        return self.choose(progress, self.backlog(progress))

    def choose(self, progress: Progress, backlog: list[Range], *, idle: bool = True) -> Batch | None:
        """Return the next batch of a backlog; only if ``idle`` is true may it consist of timers alone."""
        now = self._clock()
        paused = self._paused_tasks()
        due = due_tasks(self._timed, progress, now, paused)
        ticks = self._idle_inputs.due(progress, backlog, now, paused) if self._idle_inputs and idle else {}
        if not backlog and not (idle and (due or ticks)):
            return None
        ranges = backlog
        if self.is_too_large(backlog):
            global_ranges = [range_ for range_ in backlog if range_.topic in self._global_topics]
            others = [range_ for range_ in backlog if range_.topic not in self._global_topics]
            ranges = global_ranges + self._aligned(others, shares(others, self._size.records))
        _report_deleted(progress, ranges)
        return self.batch(progress, ranges, timers=due, ticks=ticks)

    def batch(
        self,
        progress: Progress,
        ranges: Sequence[Range] = (),
        *,
        timers: tuple[str, ...] = (),
        ticks: dict[str, int] | None = None,
    ) -> Batch:
        """Return a batch with these ranges, timers and ticks, at the current wall-clock time."""
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
        """Return the offsets up to which a batch sees each global table, also those that it does not change."""
        stops = {(range_.topic, range_.partition): range_.stop for range_ in ranges}
        return {
            topic: tuple(
                stops.get((topic, partition), progress.position(topic, partition) or 0)
                for partition in range(len(self.broker.offsets(topic)))
            )
            for topic in self._global_topics
        }

    def adapt(self, records: int, seconds: float) -> None:
        """Adapt the size of the next batches to how long a batch took."""
        self._size.adapt(records, seconds)

    def seconds_to_timer(self, progress: Progress) -> float:
        """Return the time until a timer is due or an input becomes idle."""
        paused = self._paused_tasks()
        idle_due = self._idle_inputs.next_due(progress, paused) if self._idle_inputs else FOREVER
        return max(0.0, (min(next_due(self._timed, progress, paused), idle_due) - self._clock()) / 1000)

    def _paused_tasks(self) -> Collection[str]:
        has_timers = bool(self._timed or self._idle_inputs)
        return self._paused.tasks if self._paused is not None and has_timers else ()

    def is_too_large(self, backlog: list[Range]) -> bool:
        """Whether a backlog has more records than one batch takes."""
        return records_in(range_ for range_ in backlog if range_.topic not in self._global_topics) > self._size.records

    def _aligned(self, backlog: list[Range], shares: list[int]) -> list[Range]:
        """Cut all ranges at the smallest event time that one of them reaches with its share."""
        cuts = [range_.start + share for range_, share in zip(backlog, shares, strict=True)]
        times = [self._timestamp_at(range_, cut) for range_, cut in zip(backlog, cuts, strict=True)]
        horizon = min(times)
        ranges = [
            Range(
                range_.topic, range_.partition, range_.start, cut if time == horizon else self._cut_at(range_, horizon)
            )
            for range_, cut, time in zip(backlog, cuts, times, strict=True)
        ]
        return [range_ for range_ in ranges if range_.stop > range_.start]

    def _cut_at(self, range_: Range, horizon: int) -> int:
        """Return the first offset of a range whose record is not before the horizon."""
        offset = self.broker.offset_at(range_.topic, range_.partition, horizon)
        if offset is None or offset >= range_.start:
            return range_.stop if offset is None else min(range_.stop, offset)
        # an earlier record with a later timestamp hides where the range reaches the horizon, so read the range
        for chunk in self.broker.read(range_.topic, range_.partition, range_.start, range_.stop):
            for row_offset, timestamp in zip(chunk.offsets, chunk.block.column(2).to_pylist(), strict=True):
                if timestamp >= horizon:
                    return int(row_offset)
        return range_.stop

    def _timestamp_at(self, range_: Range, offset: int) -> int:
        """Return the timestamp of the next record from ``offset`` on; offsets may have gaps."""
        timestamp = self.broker.timestamp_at(range_.topic, range_.partition, offset, range_.stop)
        return _NEVER if timestamp is None else timestamp


def records_in(ranges: Iterable[Range]) -> int:
    """Return the most records that ranges can hold."""
    return sum(range_.stop - range_.start for range_ in ranges)


def shares(backlog: list[Range], records: int) -> list[int]:
    """Divide the records of a batch among partitions: equal shares, and what one does not need goes to the others."""
    counts = [range_.stop - range_.start for range_ in backlog]
    result = [0] * len(backlog)
    left = records
    by_size = sorted(range(len(backlog)), key=counts.__getitem__)
    for done, number in enumerate(by_size):
        result[number] = min(counts[number], max(1, left // (len(by_size) - done)))
        left -= result[number]
    return result
