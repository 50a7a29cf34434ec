"""The work of tumbling, hopping and unlimited windows, over single records and over runs of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import repeat
from typing import Any, TypeAlias

import numpy as np

from millstream.native import encode_key, handles_of
from millstream.operators.columns import Collected, Port, ProcessRun, Run, do_nothing
from millstream.operators.windows import Aggregation, Put, closer, windowed
from millstream.state.entries import Entry
from millstream.state.windows import Window, WindowStore
from millstream.windows import FOREVER, TimeWindows, UnlimitedWindows

Update: TypeAlias = tuple[int, Any, Any, Any, int, int]
"""Row, key, handle of the key, value, timestamp, and the latest time up to the record."""

_FEW = 32
"""The entries of fewer records are read one by one: to see which they are would take longer than that."""

_MOST_SPANS = 16
"""A run that is spread over more spans of time than this has few records in each, which are read one by one."""


@windowed.register(TimeWindows)
@windowed.register(UnlimitedWindows)
def _time_windows(windows: TimeWindows | UnlimitedWindows, aggregation: Aggregation) -> Port:
    spans = Spans(windows, aggregation.store)
    update = _updating(windows, aggregation, spans)
    context, put = aggregation.context, aggregation.put

    def process(key: Any, value: Any, timestamp: int) -> None:
        handle = key if type(key) is str or type(key) is int else encode_key(key)
        update(((context.row, key, handle, value, timestamp, -1),), put)

    def over_runs(forward: ProcessRun | None) -> ProcessRun:
        collected = None
        if forward is not None and not aggregation.held_back:
            collected = Collected(context, forward, aggregation.forward)
        put_all = put if collected is None else aggregation.passing_on(collected.add)
        # who is given single results wants to know what time it is
        wants_time = aggregation.final or (collected is None and not aggregation.held_back) or aggregation.tells_late

        def process_run(run: Run) -> None:
            if not run.rows:
                return
            handles = handles_of(run.keys)
            if len(handles) >= _FEW:
                spans.expect(handles, run.timestamps)
            moments = run.moments if wants_time else repeat(-1)
            send = do_nothing if collected is None else collected.sender(run)
            update(zip(run.rows, run.keys, handles, run.values, run.timestamps, moments, strict=False), put_all, send)
            send()

        return process_run

    return Port(process, over_runs)


class Spans:
    """Spans of time in which all timestamps belong to the same windows, and the entries of these windows."""

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

    def expect(self, handles: list[Any], timestamps: list[int]) -> None:
        """Read the entries that a run will ask for, all at one go."""
        times = np.array(timestamps, np.int64)
        low, high = int(times.min()), int(times.max())
        for _ in range(_MOST_SPANS):
            starts, _, _, until = self.at(low)
            rows = np.flatnonzero((times >= low) & (times < until)).tolist()
            wanted = handles if len(rows) == len(handles) else [handles[row] for row in rows]
            for start in starts:
                self._store.window(start).expect(wanted)
            if high < until:
                return
            low = int(times[times >= until].min())


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


def _updating(  # noqa: C901 - the innermost loop, in which a call costs as much as all the rest
    windows: TimeWindows | UnlimitedWindows, aggregation: Aggregation, spans: Spans
) -> Callable[..., None]:
    """Return what takes records into their windows, in order; ``send`` is called before one is said to have failed."""
    store, clock, context = aggregation.store, aggregation.clock, aggregation.context
    skips_nulls, added, begin = aggregation.skips_nulls, aggregation.added, aggregation.begin
    waits, hides = windows.size + windows.grace, store.retention - (0 if aggregation.final else 1)
    hidden = bool(aggregation.node.other_adders)  # of those on time only one that lags behind others finds hidden ones
    emit = closer(aggregation, lambda close: close - windows.size) if aggregation.final else None
    aggregation.on_time(None if emit is None else lambda time: emit(time - windows.grace))
    span_at = spans.at

    def update(records: Iterable[Update], put: Put, send: Callable[[], None] = do_nothing) -> None:  # noqa: C901
        starts: list[int] = []
        known: Any = None
        since = until = first = -1
        now, reached, alone = clock.time, context.stream_time, False
        for context.row, key, handle, value, timestamp, moment in records:
            if moment > reached:
                context.stream_time = reached = moment
            if key is None or (value is None and skips_nulls):
                aggregation.drop("null_key" if key is None else "null_value")
                continue
            if timestamp > now:
                clock.time = now = timestamp
            if not since <= timestamp < until:
                starts, known, since, until = span_at(timestamp)
                alone, first = len(starts) == 1, starts[0] if starts else FOREVER
            if first > now - waits:
                entries = (known[handle],) if alone else known[handle]
            else:
                entries = aggregation.not_late(key, starts, now - waits)
            for entry in entries:
                old = entry.value
                if hidden and entry.at[0] < store.observed - hides:
                    old = None
                at = timestamp if old is None or timestamp > entry.timestamp else entry.timestamp
                try:
                    if old is None:
                        old = begin()
                    new = added(key, old, value)
                except Exception as error:
                    send()
                    aggregation.fail(error, key)
                    break
                put(entry, new, at, old)
            if emit is not None:
                emit(now - windows.grace)

    return update
