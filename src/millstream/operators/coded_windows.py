"""Count coded records by key and window: no record becomes a Python object.

Counts that are forwarded at the end of the batch are left to the store. If each update is forwarded, the results are
computed here. Both must give what the loops of time_windows.py give for the same records;
tests/task/test_coded_records.py compares them.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np

from millstream.foundation.blocks import take_items
from millstream.foundation.coded import CodedRecords
from millstream.foundation.key_columns import hashable_keys
from millstream.operators.aggregation import finishing_columns
from millstream.operators.coded import ProcessCoded, SortedGroups
from millstream.operators.columns import Chunk, ColumnBatch, ProcessColumns
from millstream.operators.spans import Span, Spans
from millstream.operators.windows import WindowAggregator
from millstream.state.counted_windows import Counting
from millstream.state.entries import Entry


def coded_counter(
    counting: Counting | None, aggregation: WindowAggregator, spans: Spans, forward: ProcessColumns | None
) -> ProcessCoded | None:
    """Return what counts coded records, and forwards each result unless it waits for the end of the batch.

    None if values matter, or if results cannot be forwarded as a column batch.
    """
    clock, store, is_deferred = aggregation.clock, aggregation.store, aggregation.is_deferred
    if counting is None or forward is None or aggregation.final:
        return None
    forward_finished = finishing_columns(aggregation.node, forward)
    open_for = counting.windows.size + counting.windows.grace

    def process(records: CodedRecords, chunk: Chunk, first_row: int) -> bool:
        divided = spans.divide(records.times)
        if divided is None or type(None) in map(type, records.keys):
            return False
        late = divided.late_rows(clock.time, open_for)
        if len(late) and aggregation.has_late_topic:
            return False
        if (len(late) or not is_deferred) and not divided.has_single_windows:
            return False
        latest, span_of_row = int(records.times.max()), divided.span_of_row
        rows = np.delete(np.arange(len(records.times)), late)
        if len(late):
            records, span_of_row = records.take(rows), span_of_row[rows]
        if is_deferred and len(rows) and not store.count(records.keys, records.times, counting, records.codes):
            return False
        aggregation.drop("late", len(late))
        clock.time = max(clock.time, latest)
        if not is_deferred and len(rows):
            keys, values, times = _updated(aggregation, counting, records, span_of_row, divided.spans)
            forward_finished(ColumnBatch(chunk, (rows + first_row).tolist(), keys, values, times))
        return True

    return process


def _updated(
    aggregation: WindowAggregator, counting: Counting, records: CodedRecords, span_of_row: Any, spans: list[Span]
) -> tuple[list[Any], list[Any], list[int]]:
    """Add each record to the entry of its only window; return window, aggregate and timestamp after each record."""
    groups = SortedGroups(records.codes * len(spans) + span_of_row, records.times)
    entries = _entries(hashable_keys(records.keys), groups.numbers, spans)
    times, last_times = groups.latest([-1 if entry.value is None else entry.timestamp for entry in entries])
    before = [counting.begin() if entry.value is None else entry.value for entry in entries]
    if aggregation.node.ready is None:
        values, last_values = groups.counts(before)
    else:
        counts, last_counts = groups.counts([0] * len(entries))
        values = list(map(counting.added, take_items(before, groups.groups()), counts))
        last_values = list(map(counting.added, before, last_counts))
    for entry, value, latest in zip(entries, last_values, last_times, strict=True):
        entry.value, entry.timestamp = value, latest
        if not entry.changed:
            aggregation.store.mark(entry)
        if entry.window is None:
            entry.window = aggregation.windowed_key(entry.key, entry.position)
    return take_items([entry.window for entry in entries], groups.groups()), values, times


def _entries(handles: list[Any], numbers: list[int], spans: list[Span]) -> list[Entry]:
    """Return the entries of groups, which are numbered by key, then span; those of a window are read in one pass."""
    width = len(spans)
    windows = [window for _, window, _, _ in spans]
    needed: defaultdict[int, list[Any]] = defaultdict(list)
    for number in numbers:
        needed[number % width].append(handles[number // width])
    for span, keys in needed.items():
        windows[span].prefetch(keys)
    return [windows[number % width][handles[number // width]] for number in numbers]
