"""Join records of two streams column by column.

Both sides are appended to their stores as arrays that are sorted by key and time, in which two searches find all
partners of all records. A record is joined with those that have arrived before it, in the order in which single records
are. It must do what ``stream_joins.py`` does for them; tests/task/test_join_columns.py compares both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from millstream.foundation.blocks import take_items
from millstream.operators.columns import ColumnBatch, ProcessColumns, ProcessSides
from millstream.operators.runtime import Process, Runtime
from millstream.plan.joins import StreamStreamJoin
from millstream.state.appended import AppendedStore
from millstream.state.entries import StreamClock

RIGHT, LEFT = 0, 1  # unmatched records of the right stream precede those of the left with the same timestamp
_MIN_RECORDS = 64
_MAX_SMALL_BATCHES = 8
_MAX_PAIRS = 100_000
"""How many possible pairs are looked at together."""


class _Pairs(NamedTuple):
    """Records with one partner each, in the order in which they are joined; arrays."""

    rows: Any
    left_slots: Any
    right_slots: Any
    timestamps: Any


class _Appended(NamedTuple):
    """The records of one side of a column batch."""

    rows: Any
    """Their indexes in the column batch."""
    slots: Any
    """Where their values are in the store; those of earlier records are smaller."""


class JoinColumns:
    """An inner join that processes column batches."""

    def __init__(
        self, node: StreamStreamJoin, left: AppendedStore, right: AppendedStore, clock: StreamClock, runtime: Runtime
    ) -> None:
        self._node = node
        self._stores = {LEFT: left, RIGHT: right}
        right.keys = left.keys
        self._clock = clock
        self._runtime = runtime
        within = node.within
        self._small_batches = 0
        self._back, self._ahead = np.array([within.after, within.before]), np.array([within.before, within.after])

    def processing(self, forward: ProcessColumns, processes: Mapping[int, Process]) -> ProcessSides:
        """Return what processes column batches; ``processes`` are those of single records by side."""

        def process(batch: ColumnBatch, sides: Any) -> None:
            pairs = self._append(batch, sides)
            if pairs is None:
                return self._process_singly(batch, sides, processes)
            for part in pairs:
                self._join(batch, part, forward)
            self._runtime.context.row = batch.rows[-1]
            return None

        return process

    def _process_singly(self, batch: ColumnBatch, sides: Any, processes: Mapping[int, Process]) -> None:
        context, process_of = self._runtime.context, [processes[RIGHT], processes[LEFT]]
        columns = zip(batch.stream_times, sides.tolist(), batch.keys, batch.values, batch.timestamps, strict=True)
        for context.row, (stream_time, side, key, value, timestamp) in zip(batch.rows, columns, strict=True):
            if stream_time > context.stream_time:
                context.stream_time = stream_time
            process_of[side](key, value, timestamp)

    def _append(self, batch: ColumnBatch, sides: Any) -> Iterator[_Pairs] | None:
        """Append records to their stores and return the pairs; None if they have to be processed one by one."""
        if not self._is_worthwhile(len(batch.keys)) or type(None) in {*map(type, batch.keys), *map(type, batch.values)}:
            return None
        stores, times = self._stores, np.array(batch.timestamps, np.int64)
        codes = stores[LEFT].keys.of(batch.keys)
        if not all(store.can_append(int(times.min()), int(times.max())) for store in stores.values()):
            return None
        rows = {side: np.flatnonzero(sides == side) for side in stores}
        expired = {side: self._expired(stores[side], times, rows[side]) for side in stores}
        if any((times[rows[side]] <= expired[side][rows[side]]).any() for side in stores):
            return None  # they are too late for partners
        self._clock.time = max(self._clock.time, int(times.max()))
        low = np.maximum(times - self._back[sides], np.where(sides == LEFT, expired[RIGHT], expired[LEFT]) + 1)
        high = np.maximum(times + self._ahead[sides], 0)
        appended: dict[int, _Appended] = {}
        for side, store in stores.items():
            own, other = rows[side], rows[1 - side]
            store.load(codes[other], low[other])
            store.load(codes[own], times[own])
            slots = store.append(codes[own], times[own], take_items(batch.values, own.tolist()))
            appended[side] = _Appended(own, slots)
        return self._pairs(sides, times, codes, low, high, appended)

    def _is_worthwhile(self, size: int) -> bool:
        """Whether to use columns; a few small batches are cheaper than to make entries of what has been appended."""
        if size >= _MIN_RECORDS:
            return True
        self._small_batches += 1
        return self._small_batches <= _MAX_SMALL_BATCHES and self._stores[LEFT].has_columns

    def _expired(self, store: AppendedStore, times: Any, rows: Any) -> Any:
        """Return for each row the time up to which records of a store have expired when it arrives, or by itself."""
        latest = np.full(len(times), store.observed)
        latest[rows] = times[rows]
        return np.maximum(np.maximum.accumulate(latest), store.observed) - store.retention

    def _pairs(
        self, sides: Any, times: Any, codes: Any, low: Any, high: Any, appended: dict[int, _Appended]
    ) -> Iterator[_Pairs]:
        begins, stops, own_slots = (np.empty(len(sides), np.int64) for _ in range(3))
        for side, (rows, slots) in appended.items():
            begins[rows], stops[rows] = self._stores[1 - side].find(codes[rows], low[rows], high[rows])
            own_slots[rows] = slots
        sizes = stops - begins
        totals = np.cumsum(sizes)
        first = 0
        while first < len(sizes):
            done = int(totals[first - 1]) if first else 0
            stop = max(first + 1, int(np.searchsorted(totals, done + _MAX_PAIRS, "right")))
            rows = np.repeat(np.arange(first, stop), sizes[first:stop])
            partners = np.arange(len(rows)) + np.repeat((begins - totals + sizes)[first:stop] + done, sizes[first:stop])
            yield self._arrived(sides, times, own_slots, rows, partners, appended)
            first = stop

    def _arrived(
        self, sides: Any, times: Any, own_slots: Any, rows: Any, partners: Any, appended: dict[int, _Appended]
    ) -> _Pairs:
        """Return the pairs whose partner arrived before the record; ``partners`` are indexes in the other store."""
        slots, partner_times, arrivals = (np.empty(len(rows), np.int64) for _ in range(3))
        for side, store in self._stores.items():
            chosen = np.flatnonzero(sides[rows] != side)
            slots[chosen], partner_times[chosen] = store.slots[partners[chosen]], store.times[partners[chosen]]
            arrivals[chosen] = _arrivals(slots[chosen], appended[side])
        kept = np.flatnonzero(arrivals < rows)
        rows, slots = rows[kept], slots[kept]
        is_left, own = sides[rows] == LEFT, own_slots[rows]
        timestamps = np.maximum(times[rows], partner_times[kept])
        return _Pairs(rows, np.where(is_left, own, slots), np.where(is_left, slots, own), timestamps)

    def _join(self, batch: ColumnBatch, pairs: _Pairs, forward: ProcessColumns) -> None:
        if not len(pairs.rows):
            return
        rows, node, context = pairs.rows.tolist(), self._node, self._runtime.context
        keys, numbers = take_items(batch.keys, rows), take_items(batch.rows, rows)
        lefts = take_items(self._stores[LEFT].values, pairs.left_slots.tolist())
        rights = take_items(self._stores[RIGHT].values, pairs.right_slots.tolist())
        joined = ColumnBatch(batch.chunk, numbers, keys, lefts, pairs.timestamps.tolist())
        call: Callable[..., Any] = node.joiner.call
        start = 0
        while start < len(rows):
            results: list[Any] = []
            error: Exception = StopIteration()  # if the function raises it, map ends without an error
            try:
                if node.joiner.arity == 3:
                    results.extend(map(call, keys[start:], lefts[start:], rights[start:]))
                else:
                    results.extend(map(call, lefts[start:], rights[start:]))
            except Exception as raised:
                error = raised
            done = start + len(results)  # results before an error stay in the list
            if results:
                forward(joined.part(start, done).with_values(results))
            if done == len(rows):
                return
            context.row = numbers[done]
            self._runtime.handle_error(node, error, keys[done], batch.timestamps[rows[done]])
            start = done  # the record is not joined with its other partners either
            while start < len(rows) and rows[start] == rows[done]:
                start += 1


def _arrivals(slots: Any, appended: _Appended) -> Any:
    """Return the rows in which records have arrived, -1 for those that arrived before the column batch."""
    first = int(appended.slots[0]) if len(appended.slots) else 0
    is_new = np.flatnonzero(slots >= first) if len(appended.slots) else slots[:0]
    arrivals = np.full(len(slots), -1)
    arrivals[is_new] = appended.rows[slots[is_new] - first]
    return arrivals
