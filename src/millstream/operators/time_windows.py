"""The work of tumbling, hopping and unlimited windows, over single records and over runs of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import repeat
from typing import Any, TypeAlias

from millstream.foundation.object_codec import encode_key, hashable_keys
from millstream.operators.columns import Collected, ColumnBatch, Port, ProcessRun, do_nothing
from millstream.operators.spans import FEW, Expected, Spans
from millstream.operators.windows import Put, WindowAggregator, closer, windowed
from millstream.state.entries import Entry
from millstream.windows import FOREVER, TimeWindows, UnlimitedWindows

Update: TypeAlias = tuple[int, Any, Any, Any, int, int]
"""Row, key, handle of the key, value, timestamp, and the latest time up to the record."""


_RARE = 8
"""Of so many records one may be late before it is quicker to look at each."""


@windowed.register(TimeWindows)
@windowed.register(UnlimitedWindows)
def _time_windows(windows: TimeWindows | UnlimitedWindows, aggregation: WindowAggregator) -> Port:
    spans = Spans(windows, aggregation.store)
    update = _updating(windows, aggregation, spans)
    context, put, waits = aggregation.context, aggregation.put, windows.size + windows.grace

    def process(key: Any, value: Any, timestamp: int) -> None:
        handle = key if type(key) is str or type(key) is int else encode_key(key)
        update(((context.row, key, handle, value, timestamp, -1),), put)

    def over_runs(forward: ProcessRun | None) -> ProcessRun:
        collected = None
        if forward is not None and not aggregation.held_back:
            collected = Collected(context, forward, aggregation.forward)
        put_all = put if collected is None else aggregation.passing_on(collected.add)
        # who is given single results wants to know what time it is
        single = aggregation.final or (collected is None and not aggregation.held_back)
        wants_time = single or aggregation.tells_late
        take = None if single or aggregation.node.other_adders else _taking(windows, aggregation, collected)

        def one_by_one(run: ColumnBatch, handles: list[Any], send: Callable[[], None]) -> None:
            moments = run.moments if wants_time else repeat(-1)
            columns = run.rows, run.keys, handles, run.values, run.timestamps, moments
            update(zip(*columns, strict=False), put_all, send)

        def process_run(run: ColumnBatch) -> None:
            if not run.rows:
                return
            handles = hashable_keys(run.keys)
            expected = spans.expect(handles, run.timestamps) if len(handles) >= FEW else None
            send = do_nothing if collected is None else collected.sender(run)
            late = None if take is None else _few_late(aggregation, expected, run, handles, waits)
            if take is None or expected is None or late is None:
                one_by_one(run, handles, send)
            else:
                start, entries = 0, expected.entries(handles)
                for row in late:
                    take(run.part(start, row), entries, send)
                    one_by_one(run.part(row, row + 1), handles[row : row + 1], send)
                    start, _ = row + 1, next(entries)
                take(run.part(start, len(handles)), entries, send)
            send()

        return process_run

    return Port(process, over_runs)


def _few_late(
    aggregation: WindowAggregator, expected: Expected | None, run: ColumnBatch, handles: list[Any], waits: int
) -> list[int] | None:
    """Return the rows of those that are late, if these are the only ones that are special; None if one must ask."""
    if expected is None or aggregation.context.has_headers or aggregation.lacks(run, handles):
        return None
    late = expected.late(aggregation.clock.time, waits)
    return late if len(late) * _RARE <= len(handles) else None


def _updating(  # noqa: C901 - the innermost loop, in which a call costs as much as all the rest
    windows: TimeWindows | UnlimitedWindows, aggregation: WindowAggregator, spans: Spans
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


def _taking(
    windows: TimeWindows | UnlimitedWindows, aggregation: WindowAggregator, collected: Collected | None
) -> Callable[[ColumnBatch, Iterator[Iterable[Entry]], Callable[[], None]], None]:
    """Return what takes records of which none is late, lacks anything or has headers, into the entries given."""
    clock, context, mark = aggregation.clock, aggregation.context, aggregation.store.mark
    added, begin, named = aggregation.added, aggregation.begin, windows.named
    add = None if collected is None else aggregation.shown_to(collected.add)

    def take(run: ColumnBatch, known: Iterator[Iterable[Entry]], send: Callable[[], None]) -> None:
        clock.time = max(clock.time, max(run.timestamps, default=-1))
        columns = run.rows, run.keys, run.values, run.timestamps, known  # the last, as there may be more of them
        for context.row, key, value, timestamp, entries in zip(*columns, strict=False):
            for entry in entries:
                old = entry.value
                try:
                    new = added(key, begin() if old is None else old, value)
                except Exception as error:
                    send()
                    aggregation.fail(error, key)
                    break
                if old is None or timestamp > entry.timestamp:
                    entry.timestamp = timestamp
                entry.value = new
                if not entry.changed:
                    mark(entry)
                if add is not None:
                    if entry.window is None:
                        entry.window = named(entry.key, entry.at)
                    add(entry.window, new, None, entry.timestamp)
                elif entry.headers:
                    entry.headers = ()

    return take
