"""Spans of time in which all timestamps belong to the same windows, and the entries that a run of records needs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from operator import getitem
from typing import Any

import numpy as np

from millstream.state.entries import Entry
from millstream.state.windows import Window, WindowStore
from millstream.windows import FOREVER, TimeWindows, UnlimitedWindows

FEW = 32
"""To see which entries so few records of a span ask for would take longer than reading them one by one."""


class Spans:
    """The spans that an operator has met, with the entries of their windows."""

    def __init__(self, windows: TimeWindows | UnlimitedWindows, store: WindowStore) -> None:
        self._windows = windows
        self._store = store
        self._known: dict[int, tuple[list[int], Any, int, int]] = {}

    def at(self, timestamp: int) -> tuple[list[int], Any, int, int]:
        """Return the starts of the windows of a timestamp, their entries by key, and where the span begins and ends.

        The entries of a key are a list; if there is only one window, it is the entry itself.
        """
        since, until = self._windows.alike(timestamp)
        found = self._known.get(since)
        if found is None:
            starts = list(self._windows.starts(timestamp))
            entries = [self._store.window(start) for start in starts]
            before = self._known.get(2 * since - until)
            found = starts, entries[0] if len(entries) == 1 else _Across(entries, before and before[1]), since, until
            self._known[since] = found
        return found

    def expect(self, handles: list[Any], timestamps: list[int]) -> Expected | None:
        """Read the entries that a run will ask for, all at one go; None if it asks for few in each of many spans."""
        times = np.array(timestamps, np.int64)
        _, rows, places, counts = np.unique(
            self._windows.span(times), return_index=True, return_inverse=True, return_counts=True
        )
        if len(counts) * FEW > max(len(times), FEW * FEW):
            return None
        spans = [self.at(timestamps[row]) for row in rows.tolist()]
        in_order, end = np.argsort(places, kind="stable"), 0
        for (starts, _, _, _), count in zip(spans, counts.tolist(), strict=True):
            begin, end = end, end + count
            wanted = handles if count == len(handles) else [handles[row] for row in in_order[begin:end].tolist()]
            for start in starts:
                self._store.window(start).expect(wanted)
        alone = {len(starts) == 1 for starts, _, _, _ in spans}
        return Expected(times, places, spans, alone=alone.pop()) if len(alone) == 1 else None


class Expected:
    """The windows of a run."""

    def __init__(self, times: Any, places: Any, spans: list[tuple[list[int], Any, int, int]], *, alone: bool) -> None:
        self._times = times
        self._places = places
        self._spans = spans
        self._alone = alone

    def late(self, now: int, waits: int) -> list[int]:
        """Return the rows of which a window has closed before they come, if the time is ``now`` at first."""
        firsts = np.array([starts[0] if starts else FOREVER for starts, _, _, _ in self._spans])
        reached = np.maximum(np.maximum.accumulate(self._times), now)
        rows: list[int] = np.flatnonzero(firsts[self._places] <= reached - min(waits, FOREVER)).tolist()
        return rows

    def entries(self, handles: list[Any]) -> Iterator[Iterable[Entry]]:
        """Yield the entries of each row."""
        known = [entries for _, entries, _, _ in self._spans]
        found: Iterator[Any] = map(known[0].__getitem__, handles)
        if len(known) > 1:
            found = map(getitem, map(known.__getitem__, self._places.tolist()), handles)
        return zip(found, strict=False) if self._alone else found


class _Across(dict[Any, list[Entry]]):
    """The entries of each key in several windows; mostly all but one are those of the span before."""

    def __init__(self, windows: list[Window], before: Any) -> None:
        self.windows = windows
        follows = isinstance(before, _Across) and list(map(id, before.windows[1:])) == list(map(id, windows[:-1]))
        self._before: dict[Any, list[Entry]] = before if follows else {}

    def __missing__(self, handle: Any) -> list[Entry]:
        before = self._before.get(handle)
        if before is not None:
            entries = [*before[1:], self.windows[-1][handle]]
        else:
            entries = [window[handle] for window in self.windows]
        self[handle] = entries
        return entries
