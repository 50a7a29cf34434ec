"""Collect the records of windows that are counted at the end of the batch: only their keys and times matter."""

from __future__ import annotations

from typing import Any

import numpy as np

from millstream.foundation.coded import CodedRecords
from millstream.operators.coded import ProcessCoded
from millstream.operators.columns import Chunk, ColumnBatch, ProcessColumns
from millstream.operators.windows import WindowAggregator
from millstream.state.segments import KEY_LIMIT

_MIN_RECORDS = 64


class RecordCollector:
    """Collects records, unless the key or value of one of them is null, or it is too early.

    A record is too early if it is ``open_for`` or more behind stream time, or before ``earliest``.
    """

    def __init__(self, aggregation: WindowAggregator, open_for: int, earliest: int = 0) -> None:
        self._aggregation = aggregation
        self._open_for = open_for
        self._earliest = earliest
        self.began_at = -1
        """Stream time before the first record that was collected."""

    def process_columns(self, singly: ProcessColumns) -> ProcessColumns:
        """Return what collects a column batch; ``singly`` processes it if that is not possible."""
        aggregation = self._aggregation

        def process(batch: ColumnBatch) -> None:
            if (
                len(batch.keys) < _MIN_RECORDS
                or aggregation.context.has_headers
                or type(None) in map(type, batch.keys)
                or type(None) in map(type, batch.values)
                or not self._collect(batch.keys, np.array(batch.timestamps, np.int64))
            ):
                return singly(batch)
            aggregation.context.row = batch.rows[-1]
            return None

        return process

    def process_coded(self) -> ProcessCoded:
        """Return what collects records that are arrays."""

        def process(records: CodedRecords, _chunk: Chunk, _first_row: int) -> bool:
            return type(None) not in map(type, records.keys) and self._collect(*records)

        return process

    def _collect(self, keys: list[Any], times: Any, codes: Any = None) -> bool:
        clock, store = self._aggregation.clock, self._aggregation.store
        now = np.maximum(np.maximum.accumulate(times), clock.time)
        if store.has_buckets or int(times.min()) < self._earliest or (times <= now - self._open_for).any():
            return False
        is_first = not store.counted
        if not store.counted.add(keys, times, KEY_LIMIT, codes):
            return False
        if is_first:
            self.began_at = clock.time
        clock.time = int(now[-1])
        return True
