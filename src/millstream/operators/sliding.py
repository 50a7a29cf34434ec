"""Sliding windows: a window for each set of records that are at most the difference apart.

For a record at t there is a window that ends at t, one that starts right after the record before it, and one that
starts right after t; each only if its content differs from its neighbours'. A new window starts from the aggregate of
a stored neighbour that contains exactly its other records. Windows are updated in the order of Kafka Streams.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from millstream.errors import DefinitionError
from millstream.operators.coded import ProcessCoded
from millstream.operators.columns import Port, ProcessColumns, record_by_record
from millstream.operators.runtime import Process
from millstream.operators.sliding_counts import SlidingCounter
from millstream.operators.windows import WindowAggregator, closer, windowed
from millstream.state.entries import Entry
from millstream.windows import SlidingWindows

Content: TypeAlias = tuple[Any, int]
"""The aggregate of a window before the record, and the time of its last record."""


@windowed.register(SlidingWindows)
def _sliding_windows(windows: SlidingWindows, aggregation: WindowAggregator) -> Port:
    update = WindowUpdate(aggregation, windows.difference)
    process = _processing(windows, aggregation, update)
    counter = SlidingCounter(windows, aggregation, update.add_unless_late)

    def make_process_columns(forward: ProcessColumns | None) -> ProcessColumns:
        singly = record_by_record(process, aggregation.context)
        collector = counter.collector(forward)
        return singly if collector is None else collector.process_columns(singly)

    def make_process_coded(forward: ProcessColumns | None) -> ProcessCoded | None:
        collector = counter.collector(forward)
        return None if collector is None else collector.process_coded()

    return Port(process, make_process_columns, make_process_coded)


def _processing(windows: SlidingWindows, aggregation: WindowAggregator, update: WindowUpdate) -> Process:
    """Return what processes a record."""
    clock, difference = aggregation.clock, windows.difference
    emit = closer(aggregation, lambda close: close - difference - 1) if aggregation.final else None
    aggregation.on_time_advance(None if emit is None else lambda time: emit(time - windows.grace))
    has_late_topic = aggregation.has_late_topic

    def process(key: Any, value: Any, timestamp: int) -> None:
        if key is None or value is None:
            return aggregation.drop("null_key" if key is None else "null_value")
        if difference == 0:
            raise DefinitionError("a sliding window of 0 ms has no records", hint="use a difference of 1 ms or more")
        if timestamp > clock.time:
            clock.time = timestamp
        close = clock.time - windows.grace
        try:
            is_open = update.add_unless_late(key, value, timestamp, close)
        except Exception as error:
            return aggregation.handle_error(error, key, timestamp)
        if has_late_topic:
            aggregation.send_late()
        if emit is not None and is_open and timestamp >= difference:
            emit(close)
        return None

    return process


class WindowUpdate:
    """Adds a record to the windows of its key."""

    __slots__ = (
        "_added", "_aggregation", "_bucket", "_closed", "_difference", "_key", "_set", "_stored", "_time", "_value",
    )  # fmt: skip

    def __init__(self, aggregation: WindowAggregator, difference: int) -> None:
        self._aggregation = aggregation
        self._difference = difference
        self._set, self._added = aggregation.put, aggregation.added

    def add_unless_late(self, key: Any, value: Any, time: int, close: int) -> bool:
        """Add a value to the windows of a key; return False, and count it, if all of them closed before ``close``."""
        difference, aggregation = self._difference, self._aggregation
        if time + difference < close:
            aggregation.count_late(key, (max(0, time - difference),))
            return False
        self._key, self._value, self._time = key, value, time
        self._closed = close - difference
        early = time < difference
        low = 0 if early else time - 2 * difference
        self._bucket = aggregation.store.bucket(key, low)
        self._stored = self._bucket.between(max(low, aggregation.visible_from), time + 1)
        if early:
            self._add_early()
        else:
            self._add_usual()
        return True

    def _add_usual(self) -> None:
        """Update the windows of a record that a full window fits before."""
        time, before, add = self._time, self._time - self._difference, self._add_to
        right: Content | None = None
        left: Entry | None = None
        left_exists = right_exists = False
        previous: int | None = None
        seen: list[int] = []
        for entry in reversed(self._stored):
            start, latest = entry.position[0], entry.timestamp
            seen.append(start)
            if start == time + 1:
                right_exists = True
            elif start > before:
                right = right or (entry.value, latest)
                add(entry)
            elif start == before:
                left_exists = True
                add(entry)
                if latest >= time:
                    return
                previous = latest
            else:
                left, previous = entry, latest
                break
        if previous is not None and previous + 1 not in seen and previous + 1 >= before:
            self._create(previous + 1, None)
        if not left_exists:
            contains_previous = previous is not None and previous >= before
            self._create(before, left if contains_previous else None)
        if not right_exists:
            self._create_right(right)

    def _add_early(self) -> None:
        """Update the windows of a record that shares the window from 0 with all early records."""
        time = self._time
        right: Content | None = None
        combined: Entry | None = None
        right_exists = False
        previous: int | None = None
        seen: list[int] = []
        for entry in self._stored:
            start = entry.position[0]
            seen.append(start)
            if start == 0:
                combined = entry
                previous = entry.timestamp if entry.timestamp < time else None
            elif start <= time:
                right = entry.value, entry.timestamp
                self._add_to(entry)
            else:
                right_exists = True
        if right is None and combined is not None and combined.timestamp > time:
            right = combined.value, combined.timestamp
        if not right_exists:
            self._create_right(right)
        if previous is not None and previous + 1 not in seen:
            self._create(previous + 1, None)
        if combined is None:
            self._create(0, None)
        else:
            self._add_to(combined)

    def _add_to(self, entry: Entry) -> None:
        """Add the value to a stored window."""
        time = self._time
        self._put(entry, entry.value, max(entry.timestamp, time))

    def _create(self, start: int, neighbour: Entry | None) -> None:
        """Create a window with the value, starting from a neighbour that contains its other records."""
        entry = self._bucket.entry((start,))
        entry.value = None
        self._put(entry, self._aggregation.begin() if neighbour is None else neighbour.value, self._time)

    def _put(self, entry: Entry, aggregate: Any, timestamp: int) -> None:
        if entry.position[0] < self._closed:
            self._aggregation.count_late(self._key, entry.position)
        else:
            self._set(entry, self._added(self._key, aggregate, self._value), timestamp, aggregate)

    def _create_right(self, right: Content | None) -> None:
        """Create the window right after the record, if there are later records; it does not contain the value."""
        if right is not None and right[1] > self._time:
            entry = self._bucket.entry((self._time + 1,))
            entry.value = None
            self._set(entry, *right)
