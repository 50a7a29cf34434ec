"""The entries of a timed store in memory.

A key's entries form a bucket, sorted by where they stand. Their times are a list of numbers of their own: finding the
place of a time, or all entries of a stretch of time, is then one step in C, however many there are.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Any, TypeAlias

import msgspec

from millstream.records import Headers

At: TypeAlias = tuple[int, ...]
"""Where an entry stands: its time first, then whatever tells it from others of the same time."""


class Entry(msgspec.Struct, eq=False, gc=False):
    """An entry in memory; ``value`` None means that there is none.

    It is a Struct without garbage collection because batches make them by the hundred thousand.
    """

    key: Any
    at: At
    name: bytes
    """The key as it stands in keys of the disk."""
    value: Any = None
    timestamp: int = -1
    before: Any = None
    """The value at the start of a round of changes."""
    changed: bool = False
    stored: bool = False
    """Whether the disk has it too, perhaps with another value."""
    headers: Headers = ()
    """Those of the last update, if it is passed on later."""
    window: Any = None
    """The window as readers see it, once somebody has asked for it."""


class Bucket:
    """The entries of a key from time ``since`` on, in the order of where they stand."""

    __slots__ = ("entries", "key", "name", "since", "times")

    def __init__(self, key: Any, name: bytes, since: int) -> None:
        self.key = key
        self.name = name
        self.since = since
        self.times: list[int] = []
        self.entries: list[Entry] = []

    def take(self, entry: Entry) -> None:
        """Put an entry in its place, behind those that stand at the same."""
        times, entries, time = self.times, self.entries, entry.at[0]
        if not times or time > times[-1]:
            times.append(time)
            entries.append(entry)
            return
        place = bisect_right(times, time)
        while place and times[place - 1] == time and entries[place - 1].at > entry.at:
            place -= 1
        times.insert(place, time)
        entries.insert(place, entry)

    def find(self, at: At) -> Entry | None:
        """Return the entry at a place, if there is one."""
        times, entries, time = self.times, self.entries, at[0]
        place = bisect_left(times, time)
        while place < len(times) and times[place] == time:
            if entries[place].at == at:
                return entries[place]
            place += 1
        return None

    def entry(self, at: At) -> Entry:
        """Return the entry at a place, an empty one if there is none."""
        times = self.times
        if not times or at[0] > times[-1]:  # mostly a new one is later than all others
            entry = Entry(self.key, at, self.name)
            times.append(at[0])
            self.entries.append(entry)
            return entry
        found = self.find(at)
        if found is None:
            found = Entry(self.key, at, self.name)
            self.take(found)
        return found

    def move(self, entry: Entry, at: At) -> None:
        """Put an entry elsewhere, which the disk has not seen yet."""
        if self.entries[-1] is entry and at[0] >= self.times[-1]:  # mostly it is the last one and goes further
            entry.at, entry.window, self.times[-1] = at, None, at[0]
            return
        self.drop(entry)
        entry.at, entry.window = at, None
        self.take(entry)

    def drop(self, entry: Entry) -> None:
        """Let go of an entry: it was taken back before the disk has seen it."""
        place = bisect_left(self.times, entry.at[0])
        while self.entries[place] is not entry:
            place += 1
        del self.times[place], self.entries[place]

    def between(self, low: int, high: int) -> list[Entry]:
        """Return the entries whose time is in ``low`` … ``high``, in order."""
        times = self.times
        if not times or times[-1] < low:
            return []
        stop = None if times[-1] <= high else bisect_right(times, high)
        return [entry for entry in self.entries[bisect_left(times, low) : stop] if entry.value is not None]


class Clock:
    """The latest time that an operator has seen."""

    __slots__ = ("time",)

    def __init__(self, time: int) -> None:
        self.time = time
