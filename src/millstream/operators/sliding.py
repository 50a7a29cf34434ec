"""The work of sliding windows: a window for each set of records that are not more than the difference apart.

For a record at t there is a window that ends at t, one that begins right after the record before it, and one that
begins right after t; each only if its content differs from its neighbours'. A new window starts from the aggregate of
a stored neighbour that holds exactly its other records. All is in Kafka Streams' order.
"""

from __future__ import annotations

from typing import Any

from millstream.errors import DefinitionError
from millstream.operators.runtime import Process
from millstream.operators.windows import Aggregation, closer, windowed
from millstream.state.timed import Entry
from millstream.windows import SlidingWindows


@windowed.register(SlidingWindows)
def _sliding_windows(windows: SlidingWindows, aggregation: Aggregation) -> Process:
    clock, difference = aggregation.clock, windows.difference
    emit = closer(aggregation, lambda close: close - difference - 1) if aggregation.final else None
    aggregation.on_time(None if emit is None else lambda time: emit(time - windows.grace))
    tells_late = aggregation.node.late_to is not None

    def process(key: Any, value: Any, timestamp: int) -> None:
        if key is None or value is None:
            return aggregation.drop("null_key" if key is None else "null_value")
        if difference == 0:
            raise DefinitionError("a sliding window of 0 ms holds nothing", hint="use a difference of 1 ms or more")
        if timestamp > clock.time:
            clock.time = timestamp
        close = clock.time - windows.grace
        if timestamp + difference < close:
            aggregation.late(key, (max(0, timestamp - difference),))
            return aggregation.tell_late()
        update = Update(aggregation, difference, key, value, timestamp, close)
        try:
            update.early() if timestamp < difference else update.usual()
        except Exception as error:
            return aggregation.fail(error, key)
        if tells_late:
            aggregation.tell_late()
        if emit is not None and timestamp >= difference:
            emit(close)
        return None

    return process


class Update:
    """What one record does to the windows of its key."""

    __slots__ = ("aggregation", "close", "difference", "key", "time", "value")

    def __init__(self, aggregation: Aggregation, difference: int, key: Any, value: Any, time: int, close: int) -> None:
        self.aggregation = aggregation
        self.difference = difference
        self.key = key
        self.value = value
        self.time = time
        self.close = close

    def usual(self) -> None:
        """Update the windows of a record that has a whole window before it."""
        time, difference = self.time, self.difference
        right: Entry | None = None
        left: Entry | None = None
        left_exists = right_exists = False
        previous: int | None = None
        seen: set[int] = set()
        for entry in reversed(self._stored(time - 2 * difference, time + 1)):
            start = entry.at[0]
            seen.add(start)
            latest = entry.timestamp
            if start == time + 1:
                right, right_exists = entry, True
            elif start + difference > time:
                right = right or _copy(entry)
                self._add(entry)
            elif start + difference == time:
                left_exists = True
                self._add(entry)
                if latest >= time:
                    return
                previous = latest
            else:
                left, previous = entry, latest
                break
        if previous is not None and previous + 1 not in seen and previous + 1 + difference >= time:
            self._create(previous + 1, None)
        if not left_exists:
            holds = previous is not None and previous >= time - difference
            self._create(time - difference, left if holds else None)
        self._create_right(right, right_exists)

    def early(self) -> None:
        """Update the windows of a record that shares the window from 0 with all early ones."""
        time = self.time
        right: Entry | None = None
        combined: Entry | None = None
        right_exists = False
        previous: int | None = None
        seen: set[int] = set()
        for entry in self._stored(0, time + 1):
            start = entry.at[0]
            seen.add(start)
            if start == 0:
                combined = entry
                previous = entry.timestamp if entry.timestamp < time else None
            elif start <= time:
                right = _copy(entry)
                self._add(entry)
            else:
                right, right_exists = entry, True
        if right is None and combined is not None and combined.timestamp > time:
            right = _copy(combined)
        self._create_right(right, right_exists)
        if previous is not None and previous + 1 not in seen:
            self._create(previous + 1, None)
        if combined is None:
            self._create(0, None)
        else:
            self._add(combined)

    def _stored(self, low: int, high: int) -> list[Entry]:
        aggregation = self.aggregation
        return [one for one in aggregation.store.between(self.key, low, high) if aggregation.visible(one.at[0])]

    def _add(self, entry: Entry) -> None:
        """Add the value to a stored window."""
        self._put(entry, entry.value, max(self.time, entry.timestamp))

    def _create(self, start: int, neighbour: Entry | None) -> None:
        """Make a window with the value, on top of a neighbour that holds its other records."""
        entry = self.aggregation.store.entry(self.key, (start,))
        entry.value = None
        self._put(entry, self.aggregation.begin() if neighbour is None else neighbour.value, self.time)

    def _put(self, entry: Entry, aggregate: Any, timestamp: int) -> None:
        end = entry.at[0] + self.difference
        if end < self.close:
            return self.aggregation.late(self.key, entry.at)
        new = self.aggregation.added(self.key, aggregate, self.value)
        return self.aggregation.put(entry, new, timestamp, aggregate)

    def _create_right(self, right: Entry | None, exists: bool) -> None:
        """Make the window right after the record, if there are later records: it does not hold the value itself."""
        if exists or right is None or right.timestamp <= self.time:
            return
        entry = self.aggregation.store.entry(self.key, (self.time + 1,))
        entry.value = None
        self.aggregation.put(entry, right.value, right.timestamp)


def _copy(entry: Entry) -> Entry:
    """Keep what an entry was before it changes."""
    return Entry(entry.key, entry.at, entry.value, entry.timestamp)
