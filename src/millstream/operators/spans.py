"""Spans of time whose timestamps all belong to the same windows, and the window entries that a column batch needs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from operator import getitem
from typing import Any, TypeAlias

import numpy as np

from millstream.foundation.coded import distinct_numbers
from millstream.state.entries import Entry
from millstream.state.windows import Window, WindowStore
from millstream.windows import FOREVER, TimeWindows, UnlimitedWindows

MIN_PREFETCH = 32
"""For fewer records in a span, finding the entries that they need costs more than reading them one by one."""

Span: TypeAlias = tuple[list[int], Any, int, int]
"""The starts of the windows, their entries by handle of the key, and the start and end of the span.

The entries of a key are a list; if there is only one window, it is the entry itself.
"""


class Spans:
    """The spans that an operator has met, with the entries of their windows."""

    def __init__(self, windows: TimeWindows | UnlimitedWindows, store: WindowStore) -> None:
        self._windows = windows
        self._store = store
        self._spans: dict[int, Span] = {}

    def at(self, timestamp: int) -> Span:
        """Return the span of a timestamp."""
        since, until = self._windows.interval(timestamp)
        span = self._spans.get(since)
        if span is None:
            starts = list(self._windows.starts(timestamp))
            windows = [self._store.window(start) for start in starts]
            previous = self._spans.get(2 * since - until)
            entries = windows[0] if len(windows) == 1 else _EntriesOfWindows(windows, previous and previous[1])
            span = self._spans[since] = starts, entries, since, until
        return span

    def divide(self, times: Any) -> DividedBatch | None:
        """Divide records into spans, given an array of their timestamps; None if many spans have few records each."""
        rows, span_of_row = distinct_numbers(np.asarray(self._windows.interval_number(times), np.int64))
        if len(rows) * MIN_PREFETCH > max(len(times), MIN_PREFETCH * MIN_PREFETCH):
            return None
        return DividedBatch(self._store, times, span_of_row, list(map(self.at, times[rows].tolist())))


class DividedBatch:
    """The spans of some records."""

    def __init__(self, store: WindowStore, times: Any, span_of_row: Any, spans: list[Span]) -> None:
        self._store = store
        self._times = times
        self.span_of_row = span_of_row
        self.spans = spans

    @property
    def has_single_windows(self) -> bool:
        """Whether each record belongs to exactly one window."""
        return all(len(starts) == 1 for starts, _, _, _ in self.spans)

    def late_rows(self, now: int, open_for: int) -> Any:
        """Return an array of the rows for which a window has closed before they arrive.

        The operator's time starts at ``now``; ``open_for`` is how long after its start a window closes.
        """
        firsts = np.array([starts[0] if starts else FOREVER for starts, _, _, _ in self.spans])
        stream_times = np.maximum(np.maximum.accumulate(self._times), now)
        late = firsts[self.span_of_row] <= stream_times - min(open_for, FOREVER)
        return np.flatnonzero(late)

    def prefetch(self, handles: list[Any]) -> Iterator[Iterable[Entry]] | None:
        """Read the entries that the records need in one pass, and return those of each row.

        Return None if there is only one window in some spans, and several in others.
        """
        in_order, end = np.argsort(self.span_of_row, kind="stable"), 0
        for (starts, _, _, _), count in zip(self.spans, np.bincount(self.span_of_row).tolist(), strict=True):
            begin, end = end, end + count
            needed = handles if count == len(handles) else [handles[row] for row in in_order[begin:end].tolist()]
            for start in starts:
                self._store.window(start).prefetch(needed)
        is_single = {len(starts) == 1 for starts, _, _, _ in self.spans}
        if len(is_single) > 1:
            return None
        lookups = self._lookups(handles)
        return zip(lookups, strict=False) if is_single.pop() else lookups

    def _lookups(self, handles: list[Any]) -> Iterator[Any]:
        """Yield what the spans of the rows have for them: an entry, or a list of entries."""
        by_span = [entries for _, entries, _, _ in self.spans]
        if len(by_span) == 1:
            return map(by_span[0].__getitem__, handles)
        return map(getitem, map(by_span.__getitem__, self.span_of_row.tolist()), handles)


class _EntriesOfWindows(dict[Any, list[Entry]]):
    """The entries of each key in several windows; mostly all but one are those of the previous span."""

    def __init__(self, windows: list[Window], previous: Any) -> None:
        self.windows = windows
        overlap = previous.windows[1:] if isinstance(previous, _EntriesOfWindows) else []
        follows = bool(overlap) and list(map(id, overlap)) == list(map(id, windows[:-1]))
        self._previous: dict[Any, list[Entry]] = previous if follows else {}

    def __missing__(self, handle: Any) -> list[Entry]:
        previous = self._previous.get(handle)
        if previous is not None:
            entries = [*previous[1:], self.windows[-1][handle]]
        else:
            entries = [window[handle] for window in self.windows]
        self[handle] = entries
        return entries
