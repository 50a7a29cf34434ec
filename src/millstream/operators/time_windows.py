"""Tumbling, hopping and unlimited windows, for single records and for column batches.

Two loops add records to their windows: ``update`` handles every case, ``add`` is the fast path for records whose
entries are prefetched. Counts that are forwarded at the end of the batch need no loop: the store counts columns. All
must give the same results, state and counts; tests/task/test_loops_agree.py compares them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import repeat
from typing import Any, TypeAlias

import numpy as np

from millstream.foundation.key_columns import hashable_keys
from millstream.foundation.object_codec import encode_key
from millstream.operators.coded_windows import coded_counter
from millstream.operators.columns import ChangeCollector, ColumnBatch, EndOfBatch, Port, ProcessColumns, do_nothing
from millstream.operators.spans import MIN_PREFETCH, DividedBatch, Spans
from millstream.operators.windows import Put, WindowAggregator, closer, windowed
from millstream.state.counted_windows import Counting
from millstream.state.entries import Entry
from millstream.windows import FOREVER, TimeWindows, UnlimitedWindows

Update: TypeAlias = tuple[int, Any, Any, Any, int, int]
"""Row, key, handle of the key, value, timestamp, and the latest timestamp up to the record."""


_RARE = 8
"""The fast path is used if at most one in this many records is late."""


@windowed.register(TimeWindows)
@windowed.register(UnlimitedWindows)
def _time_windows(windows: TimeWindows | UnlimitedWindows, aggregation: WindowAggregator) -> Port:
    spans = Spans(windows, aggregation.store)
    update = _update_loop(windows, aggregation, spans)
    counting = _counting(windows, aggregation)
    context, put, open_for = aggregation.context, aggregation.put, windows.size + windows.grace

    def process(key: Any, value: Any, timestamp: int) -> None:
        handle = key if type(key) is str or type(key) is int else encode_key(key)
        update(((context.row, key, handle, value, timestamp, -1),), put)

    def make_process_columns(forward: ProcessColumns | None) -> ProcessColumns:
        collector = None
        if forward is not None and not aggregation.is_deferred:
            collector = aggregation.collector(forward)
        put_all = put if collector is None else aggregation.forwarding_put(collector.add)
        # steps that get single results may read stream time
        has_single_results = aggregation.final or (collector is None and not aggregation.is_deferred)
        needs_time = has_single_results or aggregation.has_late_topic
        has_fast_path = not has_single_results and not aggregation.node.other_adders
        add = _prefetched_loop(windows, aggregation, collector) if has_fast_path else None
        can_count = collector is None and forward is not None

        def update_columns(batch: ColumnBatch, handles: list[Any], send: Callable[[], None]) -> None:
            stream_times = batch.stream_times if needs_time else repeat(-1)
            columns = batch.rows, batch.keys, handles, batch.values, batch.timestamps, stream_times
            update(zip(*columns, strict=False), put_all, send)

        def process_columns(batch: ColumnBatch) -> None:
            if not batch.rows:
                return
            handles = hashable_keys(batch.keys)
            is_long = len(handles) >= MIN_PREFETCH
            divided = spans.divide(np.array(batch.timestamps, np.int64)) if is_long else None
            send = do_nothing if collector is None else collector.sender(batch)
            late = None if add is None else _late_rows(aggregation, divided, batch, handles, open_for)
            if late == [] and can_count and counting is not None and _count(aggregation, batch, counting):
                return
            entries = None if divided is None else divided.prefetch(handles)
            if add is None or entries is None or late is None:
                update_columns(batch, handles, send)
            else:
                start = 0
                for row in late:
                    add(batch.part(start, row), entries, send)
                    update_columns(batch.part(row, row + 1), handles[row : row + 1], send)
                    start, _ = row + 1, next(entries)
                add(batch.part(start, len(handles)), entries, send)
            send()

        return process_columns

    return Port(process, make_process_columns, lambda forward: coded_counter(counting, aggregation, spans, forward))


def _counting(windows: TimeWindows | UnlimitedWindows, aggregation: WindowAggregator) -> Counting | None:
    """Return how records are counted, None if more than their number matters."""
    if aggregation.added_several is None:
        return None

    def take_counted() -> ColumnBatch | None:
        counted = aggregation.store.take_counted()
        if counted is None:
            return None
        size, pairs = len(counted.keys), zip(counted.keys, counted.starts, strict=True)
        keys = [windows.window_key(key, (start,)) for key, start in pairs]
        return ColumnBatch(EndOfBatch(aggregation.context, size), range(size), keys, counted.values, counted.timestamps)

    aggregation.take_counted = take_counted
    return Counting(windows, aggregation.begin, aggregation.added_several)


def _count(aggregation: WindowAggregator, batch: ColumnBatch, counting: Counting) -> bool:
    """Let the store count records of which none is late; return False if it cannot."""
    is_counted: bool = aggregation.store.count(batch.keys, batch.timestamps, counting)
    if is_counted:
        aggregation.clock.time = max(aggregation.clock.time, *batch.timestamps)
        aggregation.context.row = batch.rows[-1]
    return is_counted


def _late_rows(
    aggregation: WindowAggregator,
    divided: DividedBatch | None,
    batch: ColumnBatch,
    handles: list[Any],
    open_for: int,
) -> list[int] | None:
    """Return the rows that are late if the fast path can process the others; None if it cannot."""
    if divided is None or aggregation.context.has_headers or aggregation.has_nulls(batch, handles):
        return None
    late: list[int] = divided.late_rows(aggregation.clock.time, open_for).tolist()
    return late if len(late) * _RARE <= len(handles) else None


def _update_loop(  # noqa: C901 - the innermost loop, in which a call costs as much as all the rest
    windows: TimeWindows | UnlimitedWindows, aggregation: WindowAggregator, spans: Spans
) -> Callable[..., None]:
    """Return a function that adds records to their windows, in order; it calls ``send`` before it reports an error.

    For records that are not late, have key and value and no headers it must do what ``_prefetched_loop`` does.
    """
    store, clock, context = aggregation.store, aggregation.clock, aggregation.context
    skips_nulls, added, begin = aggregation.skips_nulls, aggregation.added, aggregation.begin
    open_for, hidden_after = windows.size + windows.grace, store.retention - (0 if aggregation.final else 1)
    # records in time meet hidden entries only if their stream lags behind others that share the store
    may_be_hidden = bool(aggregation.node.other_adders)
    emit = closer(aggregation, lambda close: close - windows.size) if aggregation.final else None
    aggregation.on_time_advance(None if emit is None else lambda time: emit(time - windows.grace))
    span_at = spans.at

    def update(records: Iterable[Update], put: Put, send: Callable[[], None] = do_nothing) -> None:  # noqa: C901
        starts: list[int] = []
        span_entries: Any = None
        since = until = first = -1
        now, latest, is_single = clock.time, context.stream_time, False
        # As in RecordLoop, context.row is the loop variable: errors and headers refer to the current record.
        for context.row, key, handle, value, timestamp, stream_time in records:
            if stream_time > latest:
                context.stream_time = latest = stream_time
            if key is None or (value is None and skips_nulls):
                aggregation.drop("null_key" if key is None else "null_value")
                continue
            if timestamp > now:
                clock.time = now = timestamp
            if not since <= timestamp < until:
                starts, span_entries, since, until = span_at(timestamp)
                is_single, first = len(starts) == 1, starts[0] if starts else FOREVER
            if first > now - open_for:
                entries = (span_entries[handle],) if is_single else span_entries[handle]
            else:
                entries = aggregation.open_entries(key, starts, now - open_for)
            for entry in entries:
                old = entry.value
                if may_be_hidden and entry.position[0] < store.observed - hidden_after:
                    old = None
                at = timestamp if old is None or timestamp > entry.timestamp else entry.timestamp
                try:
                    if old is None:
                        old = begin()
                    new = added(key, old, value)
                except Exception as error:
                    send()
                    aggregation.handle_error(error, key, timestamp)
                    break
                put(entry, new, at, old)
            if emit is not None:
                emit(now - windows.grace)

    return update


def _prefetched_loop(
    windows: TimeWindows | UnlimitedWindows, aggregation: WindowAggregator, collector: ChangeCollector | None
) -> Callable[[ColumnBatch, Iterator[Iterable[Entry]], Callable[[], None]], None]:
    """Return a function that adds records to the entries given; no record may be late, lack a key or have headers.

    It must do what ``_update_loop`` does for such records, without its checks: this is the fast path.
    """
    clock, context, mark = aggregation.clock, aggregation.context, aggregation.store.mark
    added, begin, windowed_key = aggregation.added, aggregation.begin, windows.window_key
    forward = None if collector is None else collector.add

    def add(batch: ColumnBatch, entries_of_rows: Iterator[Iterable[Entry]], send: Callable[[], None]) -> None:
        clock.time = max(clock.time, max(batch.timestamps, default=-1))
        # the iterator is last, since it may yield more: zip stops before it takes an item too many
        columns = batch.rows, batch.keys, batch.values, batch.timestamps, entries_of_rows
        for context.row, key, value, timestamp, entries in zip(*columns, strict=False):
            for entry in entries:
                old = entry.value
                try:
                    new = added(key, begin() if old is None else old, value)
                except Exception as error:
                    send()
                    aggregation.handle_error(error, key, timestamp)
                    break
                if old is None or timestamp > entry.timestamp:
                    entry.timestamp = timestamp
                entry.value = new
                if not entry.changed:
                    mark(entry)
                if forward is not None:
                    if entry.window is None:
                        entry.window = windowed_key(entry.key, entry.position)
                    forward(entry.window, new, None, entry.timestamp)
                elif entry.headers:
                    entry.headers = ()

    return add
