"""The entries of a timed store in memory.

The entries of a key form a bucket, sorted by position. Their times are kept in a separate list of numbers, so that
finding the index of a time, or all entries of a time range, is one bisection in C.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Any, TypeAlias

import msgspec

from millstream.records import Headers

Position: TypeAlias = tuple[int, ...]
"""The position of an entry in its bucket: its time, then numbers that distinguish entries with the same time."""


class Entry(msgspec.Struct, eq=False, gc=False):
    """An entry in memory; ``value`` None means that there is no entry.

    It is a Struct without garbage collection because a batch creates hundreds of thousands of entries.
    """

    key: Any
    position: Position
    key_bytes: bytes
    """The encoded key, shortened if it is too long for LMDB."""
    value: Any = None
    timestamp: int = -1
    before: Any = None
    """The value before the changes that have not been forwarded yet."""
    changed: bool = False
    stored: bool = False
    """Whether the entry is on disk, possibly with another value."""
    headers: Headers = ()
    """The headers of the last update, if it is forwarded later."""
    window: Any = None
    """The windowed key that is forwarded, cached after its first use."""


class Bucket:
    """The entries of a key from time ``since`` on, sorted by position."""

    __slots__ = ("entries", "key", "key_bytes", "since", "times")

    def __init__(self, key: Any, key_bytes: bytes, since: int) -> None:
        self.key = key
        self.key_bytes = key_bytes
        self.since = since
        self.times: list[int] = []
        self.entries: list[Entry] = []

    def insert(self, entry: Entry) -> None:
        """Insert an entry at its position, after those with the same position."""
        times, entries, time = self.times, self.entries, entry.position[0]
        if not times or time > times[-1]:
            times.append(time)
            entries.append(entry)
            return
        index = bisect_right(times, time)
        while index and times[index - 1] == time and entries[index - 1].position > entry.position:
            index -= 1
        times.insert(index, time)
        entries.insert(index, entry)

    def find(self, position: Position) -> Entry | None:
        """Return the entry at a position, or None."""
        times, entries, time = self.times, self.entries, position[0]
        index = bisect_left(times, time)
        while index < len(times) and times[index] == time:
            if entries[index].position == position:
                return entries[index]
            index += 1
        return None

    def entry(self, position: Position) -> Entry:
        """Return the entry at a position; add an empty one if there is none."""
        times = self.times
        if not times or position[0] > times[-1]:  # a new entry is usually later than all others
            entry = Entry(self.key, position, self.key_bytes)
            times.append(position[0])
            self.entries.append(entry)
            return entry
        existing = self.find(position)
        if existing is None:
            existing = Entry(self.key, position, self.key_bytes)
            self.insert(existing)
        return existing

    def move(self, entry: Entry, position: Position) -> None:
        """Move an entry that is not on disk yet to another position."""
        if self.entries[-1] is entry and position[0] >= self.times[-1]:  # usually it is the last one and stays last
            entry.position, entry.window, self.times[-1] = position, None, position[0]
            return
        self.remove(entry)
        entry.position, entry.window = position, None
        self.insert(entry)

    def remove(self, entry: Entry) -> None:
        """Remove an entry that is not on disk yet."""
        index = bisect_left(self.times, entry.position[0])
        while self.entries[index] is not entry:
            index += 1
        del self.times[index], self.entries[index]

    def between(self, low: int, high: int) -> list[Entry]:
        """Return the entries whose time is in ``low`` … ``high``, in order."""
        times = self.times
        if not times or times[-1] < low:
            return []
        stop = None if times[-1] <= high else bisect_right(times, high)
        return [entry for entry in self.entries[bisect_left(times, low) : stop] if entry.value is not None]


class StreamClock:
    """The stream time of an operator: the latest time that it has seen."""

    __slots__ = ("time",)

    def __init__(self, time: int) -> None:
        self.time = time


class Counter:
    """A number that an operator stores, such as the number of rows in a buffer."""

    __slots__ = ("value",)

    def __init__(self, value: int) -> None:
        self.value = value
