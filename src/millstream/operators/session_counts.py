"""Counts of session windows, column by column.

Records are only collected. At the end of the batch they are sorted by key and cut into sessions where a record is too
far from the one before it; only the first session of a key can continue one that is stored. That holds as long as the
records of a key are in order and none is late: otherwise records are added one by one, as ``sessions.py`` does it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from millstream.foundation.blocks import take_items
from millstream.foundation.coded import CodedRecords
from millstream.foundation.key_columns import encode_keys
from millstream.operators.columns import ColumnBatch, EndOfBatch
from millstream.operators.windows import WindowAggregator
from millstream.state.entries import Entry
from millstream.state.timed import TimedStore
from millstream.windows import SessionWindows


class _SortedRecords(NamedTuple):
    """Records by key, then in order, as arrays."""

    keys: list[Any]
    """The distinct keys in order."""
    numbers: Any
    """Which of the keys a record has."""
    times: Any
    rows: Any
    """The number of the record in its order of arrival."""
    reach: Any
    """The earliest end of a session that the record continues."""


class SessionCounter:
    """Counts the sessions of a batch whose results are forwarded at its end."""

    def __init__(self, windows: SessionWindows, aggregation: WindowAggregator, add: Callable[..., bool]) -> None:
        self._windows = windows
        self._aggregation = aggregation
        self._store: TimedStore = aggregation.store
        self._store.count_singly = lambda key, timestamp: add(key, True, timestamp)
        aggregation.take_counted = self._take

    def _take(self) -> ColumnBatch | None:
        """Write what was collected and return the results; None if there are none, or they are added one by one."""
        store = self._store
        if not store.counted:
            return None
        records = self._sorted_records(store.counted.records())
        is_same = records.numbers[1:] == records.numbers[:-1]
        if (is_same & (records.times[1:] < records.times[:-1])).any():
            return None
        begins = np.flatnonzero(np.concatenate(([True], ~is_same | (records.times[:-1] < records.reach[1:]))))
        key_bytes = encode_keys(records.keys)
        continued = self._continued(records, begins, key_bytes)
        if continued is None:
            return None
        store.counted.clear()
        store.observed = max(store.observed, int(records.times.max()))
        return self._sessions(records, begins, key_bytes, continued)

    def _sorted_records(self, records: CodedRecords) -> _SortedRecords:
        store, (keys, numbers, times) = self._store, records.with_sorted_keys()
        observed = np.maximum.accumulate(np.concatenate(([store.observed], times[:-1])))
        reach = np.maximum(times - self._windows.gap, observed - store.retention + 1)
        rows = np.argsort(numbers, kind="stable")
        return _SortedRecords(keys, numbers[rows], times[rows], rows, reach[rows])

    def _continued(self, records: _SortedRecords, begins: Any, key_bytes: list[bytes]) -> dict[int, Entry] | None:
        """Return the stored sessions that new ones continue, by number; None if that is not always one before them."""
        store, numbers = self._store, records.numbers[begins]
        is_first = np.concatenate(([True], numbers[1:] != numbers[:-1]))
        reach = np.maximum(records.reach[begins], 0)
        sessions = np.flatnonzero(is_first & (reach <= store.last_stored))
        needed = numbers[sessions].tolist()
        until = [store.last_stored + 1] * len(needed)
        stored = store.columns().read(take_items(key_bytes, needed), reach[sessions].tolist(), until)
        sessions, ends = sessions[stored.numbers], stored.positions[:, 0]
        if (sessions[1:] == sessions[:-1]).any() or (ends > records.times[begins[sessions]]).any():
            return None
        numbers_and_positions = zip(numbers[sessions].tolist(), map(tuple, stored.positions.tolist()), strict=True)
        entries = [
            Entry(records.keys[number], position, key_bytes[number], value, position[0], value, stored=True)
            for (number, position), value in zip(numbers_and_positions, stored.values, strict=True)
        ]
        return dict(zip(sessions.tolist(), entries, strict=True))

    def _sessions(
        self, records: _SortedRecords, begins: Any, key_bytes: list[bytes], continued: dict[int, Entry]
    ) -> ColumnBatch:
        """Write sessions and return the results in the order in which single records would give them."""
        store, zero = self._store, self._aggregation.begin()
        lasts = np.append(begins[1:], len(records.times)) - 1
        numbers, starts = records.numbers[begins].tolist(), records.times[begins].tolist()
        ends, counts = records.times[lasts], (zero + lasts - begins + 1).tolist()
        turns = 2 * records.rows[begins] + 1
        is_written = ends >= store.expired
        removed: list[Entry] = []
        removal_turns: list[int] = []
        for session, entry in continued.items():
            end, starts[session] = entry.position
            counts[session] += entry.value
            is_written[session] &= ends[session] > end
            if ends[session] > end:
                # the stored session changes with its first record, and moves with the first one after its end
                moves = begins[session] + int(
                    np.searchsorted(records.times[begins[session] : lasts[session] + 1], end, "right")
                )
                removed.append(entry)
                removal_turns.append(int(turns[session]) - 1)
                turns[session] = 2 * records.rows[moves] + 1
                entry.value = None
            else:
                entry.value = counts[session]
        all_ends = ends.tolist()
        written = [
            Entry(
                records.keys[numbers[session]],
                (all_ends[session], starts[session]),
                key_bytes[numbers[session]],
                counts[session],
                all_ends[session],
            )
            for session in np.flatnonzero(is_written).tolist()
        ]
        store.write_entries([*continued.values(), *written])
        return self._results(records, removed, np.append(turns, removal_turns), (numbers, starts, all_ends, counts))

    def _results(
        self, records: _SortedRecords, removed: list[Entry], turns: Any, sessions: tuple[list[Any], ...]
    ) -> ColumnBatch:
        window_key, distinct = self._windows.window_key, records.keys
        numbers, starts, ends, counts = sessions
        keys = [
            window_key(distinct[number], (end, start)) for number, end, start in zip(numbers, ends, starts, strict=True)
        ]
        keys += [window_key(entry.key, entry.position) for entry in removed]
        values = [*counts, *[None] * len(removed)]
        times = [*ends, *(entry.position[0] for entry in removed)]
        order = np.argsort(turns, kind="stable").tolist()
        size = len(order)
        return ColumnBatch(
            EndOfBatch(self._aggregation.context, size),
            range(size),
            *([column[index] for index in order] for column in (keys, values, times)),
        )
