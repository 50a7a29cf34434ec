"""Counts of sliding windows, column by column.

Records are only collected. At the end of the batch the windows of all keys whose records are in order are computed from
arrays; the count of a window is the number of records in it. The records of other keys, and of those with late records,
are added one by one, as ``sliding.py`` does it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from millstream.foundation.blocks import take_items
from millstream.foundation.key_columns import encode_keys
from millstream.operators.collected import RecordCollector
from millstream.operators.columns import ColumnBatch, EndOfBatch, ProcessColumns
from millstream.operators.sliding_starts import SlidingStarts, SortedRecords
from millstream.operators.windows import WindowAggregator
from millstream.state.entry_columns import StoredEntries, physical_keys
from millstream.state.timed import TimedStore
from millstream.windows import FOREVER, SlidingWindows

AddRecord: TypeAlias = Callable[[Any, Any, int, int], bool]
"""Adds a value, given with its key, its time and the time up to which windows have closed."""


class _Results(NamedTuple):
    """Changed windows in the order in which records reached them."""

    keys: list[Any]
    values: list[Any]
    timestamps: list[int]
    rows: list[int]
    """The row of the first record that changed the window."""


class SlidingCounter:
    """Counts the sliding windows of a batch whose results are forwarded at its end."""

    def __init__(self, windows: SlidingWindows, aggregation: WindowAggregator, add: AddRecord) -> None:
        self._windows = windows
        self._aggregation = aggregation
        self._store: TimedStore = aggregation.store
        self._add = add
        open_for = windows.grace + 1 if aggregation.has_late_topic else FOREVER  # late records are sent one by one
        self._collector = RecordCollector(aggregation, open_for, windows.difference)
        self._store.count_singly = self._add_collected
        aggregation.take_counted = self._take

    def collector(self, forward: ProcessColumns | None) -> RecordCollector | None:
        """Return what collects records; None if they have to be processed one by one."""
        aggregation = self._aggregation
        is_deferred = aggregation.is_deferred and not aggregation.final
        if forward is None or not is_deferred or aggregation.added_several is None or self._windows.difference == 0:
            return None
        return self._collector

    def _add_collected(self, key: Any, time: int) -> None:
        """Add a record that was collected; all others are added in the same way."""
        now = self._collector.began_at = max(self._collector.began_at, time)
        self._add(key, True, time, now - self._windows.grace)

    def _take(self) -> ColumnBatch | None:
        """Write what was collected and return the results; None if there are none, or they are added one by one."""
        if not self._store.counted:
            return None
        records = SortedRecords(self._store.counted.records(), self._windows.difference)
        if not records.can_be_paired:
            return None
        self._store.counted.clear()
        key_bytes = encode_keys(records.keys)
        stored = self._stored(records, key_bytes)
        closed = self._closed(records)
        is_in_order = records.is_in_order(stored, closed)
        stored = stored.take(np.flatnonzero(is_in_order[stored.numbers]))
        windows = records.windows(is_in_order, stored)
        is_counted = is_in_order & ~self._may_miss_windows(records, is_in_order, windows, stored)
        windows = windows.take(is_counted[windows.numbers])
        observed = self._observed(records, windows)
        added = self._added_singly(records, is_counted, observed, closed)
        self._store.observed = max(self._store.observed, int(observed[-1]))
        results = self._counted(records, windows, stored, key_bytes)
        if added:
            results = _merged(results, self._taken(added))
        self._store.refresh_reads()
        size = len(results.keys)
        return ColumnBatch(EndOfBatch(self._aggregation.context, size), range(size), *results[:3])

    def _stored(self, records: SortedRecords, key_bytes: list[bytes]) -> StoredEntries:
        """Return the stored windows that the first record of each key meets."""
        since = np.maximum(records.times[records.firsts] - 2 * self._windows.difference, 0)
        return self._store.columns().read(key_bytes, since.tolist(), [self._store.last_stored + 1] * len(since))

    def _closed(self, records: SortedRecords) -> Any:
        """Return for each record the time up to which windows have closed."""
        times = np.empty_like(records.times)
        times[records.rows] = records.times
        now = np.maximum(np.maximum.accumulate(times), self._collector.began_at)
        return now[records.rows] - self._windows.grace

    def _may_miss_windows(
        self, records: SortedRecords, is_in_order: Any, windows: SlidingStarts, stored: StoredEntries
    ) -> Any:
        """Return for each key whether a record may not see a window because that has expired."""
        others = ~is_in_order[records.numbers]
        observed = self._observed(records, windows, others)
        return records.may_miss_windows(is_in_order, observed - self._store.retention, stored)

    def _observed(self, records: SortedRecords, windows: SlidingStarts, others: Any = ()) -> Any:
        """Return the latest start of a window before each row; ``others`` may create windows up to their own times."""
        latest = np.full(len(records.rows) + 1, self._store.observed)
        np.maximum.at(latest, windows.rows + 1, windows.starts)
        if len(others):
            np.maximum.at(latest, records.rows[others] + 1, records.times[others])
        return np.maximum.accumulate(latest)

    def _added_singly(self, records: SortedRecords, is_counted: Any, observed: Any, closed: Any) -> list[int]:
        """Add the records of other keys, and return the rows of those that changed a window first."""
        store, changed = self._store, list[int]()
        chosen = np.flatnonzero(~is_counted[records.numbers])
        chosen = chosen[np.argsort(records.rows[chosen])]
        rows, keys = records.rows[chosen], take_items(records.keys, records.numbers[chosen].tolist())
        columns = keys, records.times[chosen].tolist(), rows.tolist(), observed[rows].tolist(), closed[chosen].tolist()
        for key, time, row, latest, close in zip(*columns, strict=True):
            store.observed = max(store.observed, latest)
            before = store.changes
            self._add(key, True, time, close)
            changed.extend([row] * (store.changes - before))
        return changed

    def _taken(self, rows: list[int]) -> _Results:
        entries, window_key = self._store.take_changed(), self._windows.window_key
        results = _Results(
            [window_key(entry.key, entry.position) for entry in entries],
            [entry.value for entry in entries],
            [entry.timestamp for entry in entries],
            rows,
        )
        self._store.reset_changes(entries)
        return results

    def _counted(
        self, records: SortedRecords, windows: SlidingStarts, stored: StoredEntries, key_bytes: list[bytes]
    ) -> _Results:
        """Write windows, and return them with their counts."""
        counts, timestamps = records.counts(windows)
        count_several = self._aggregation.added_several
        assert count_several is not None
        before = take_items([self._aggregation.begin(), *stored.values], windows.bases.tolist())
        values = list(map(count_several, before, counts.tolist()))
        length = self._store.segment_length
        in_segments = np.argsort(windows.starts // length, kind="stable")
        numbers, starts = windows.numbers[in_segments], windows.starts[in_segments]
        self._store.columns().write(
            physical_keys(key_bytes, numbers, starts[:, None], length),
            starts,
            take_items(values, in_segments.tolist()),
            timestamps[in_segments],
            windows.is_stored[in_segments],
        )
        order = windows.in_order_of_arrival()
        window_key, arrived = self._windows.window_key, order.tolist()
        keys = take_items(records.keys, windows.numbers[order].tolist())
        return _Results(
            [window_key(key, (start,)) for key, start in zip(keys, windows.starts[order].tolist(), strict=True)],
            take_items(values, arrived),
            timestamps[order].tolist(),
            windows.rows[order].tolist(),
        )


def _merged(counted: _Results, added: _Results) -> _Results:
    """Merge the results of different keys by the rows of their records."""
    order = np.argsort([*counted.rows, *added.rows], kind="stable").tolist()
    return _Results(*(take_items([*first, *second], order) for first, second in zip(counted, added, strict=True)))
