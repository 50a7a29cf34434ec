"""The innermost loops of a task: they advance the current record and stream time, and call the first operators.

The loops must agree on what they do for a record, whichever of them processes it; tests/task/test_loops_agree.py
compares them. ``record_by_record`` in operators/columns.py and the update loops of aggregations advance row and time in
the same way.
"""

from __future__ import annotations

from itertools import count
from typing import Any

import numpy as np

from millstream.operators.build import EntryPoint
from millstream.operators.columns import ColumnBatch, ProcessSides
from millstream.operators.runtime import Process
from millstream.state.timers import Timers
from millstream.task.current_record import CurrentRecord
from millstream.task.inputs import DecodedChunk
from millstream.task.merging import MIN_SLICE, ChunkSlice, Interleaved

MIN_CODED = 64
"""Fewer records are processed as lists: a dozen calls of numpy cost more."""

_MIN_SLICE_OF_JOIN = 1024
"""The inputs of a join are one column batch, which costs about a hundred calls of numpy."""


class RecordLoop:
    """Processes the records of all inputs; ``entry_points`` are those of the inputs, by number.

    ``context.row`` is the loop variable of all loops, so that user functions and errors see the current record.
    """

    def __init__(self, entry_points: list[EntryPoint], context: CurrentRecord, timers: Timers) -> None:
        self._entry_points = entry_points
        self._processes = [entry_point.process for entry_point in entry_points]
        self._only_entry_point = entry_points[0] if len(set(self._processes)) == 1 else None
        self._sides = np.array([entry_point.side for entry_point in entry_points])
        kinds = {entry_point.process_sides for entry_point in entry_points}
        self._process_sides = entry_points[0].process_sides if len(kinds) == 1 else None
        self.min_slice = MIN_SLICE if self._process_sides is None else _MIN_SLICE_OF_JOIN
        """The shortest slices of one input that are worth a call, on average."""
        self._context = context
        self._timers = timers

    def process(self, records: ChunkSlice | Interleaved) -> int:
        """Process some records and return their number."""
        if isinstance(records, Interleaved):
            self._context.enter(records)
            if self._only_entry_point is not None:
                self._process_input(self._only_entry_point, records, 0, len(records))
                return len(records)
            if self._process_sides is not None and not self._timers.in_use:
                self._process_join(self._process_sides, records)
                return len(records)
            processes = list(map(self._processes.__getitem__, records.input_numbers.tolist()))
            loop = self._process_with_timers if self._timers.in_use else self._process_interleaved
            loop(0, processes, records.keys, records.values, records.timestamps)
            return len(processes)
        number, chunk, start, stop = records
        self._context.enter(chunk)
        self._process_input(self._entry_points[number], chunk, start, stop)
        return stop - start

    def _process_join(self, process: ProcessSides, records: Interleaved) -> None:
        """Process records of which all come from inputs of the same join."""
        rows = range(len(records))
        batch = ColumnBatch(records, rows, records.keys, records.values, records.timestamps)
        process(batch, self._sides[records.input_numbers])
        self._advance_time(records, len(records))

    def _process_input(self, entry_point: EntryPoint, chunk: DecodedChunk | Interleaved, start: int, stop: int) -> None:
        """Process the rows ``start`` to ``stop`` of a chunk, which have the same entry point."""
        if self._process_coded(entry_point, chunk, start, stop):
            return
        keys, values, timestamps = chunk.keys[start:stop], chunk.values[start:stop], chunk.timestamps[start:stop]
        if self._timers.in_use:
            self._process_with_timers(start, [entry_point.process] * len(keys), keys, values, timestamps)
        elif entry_point.process_columns is None:
            self._process_singly(start, entry_point.process, keys, values, timestamps)
        else:
            entry_point.process_columns(ColumnBatch(chunk, range(start, stop), keys, values, timestamps))
            self._advance_time(chunk, stop)

    def _process_coded(self, entry_point: EntryPoint, chunk: DecodedChunk | Interleaved, start: int, stop: int) -> bool:
        """Process rows of which only key and time matter as arrays; return False if that is not possible."""
        if entry_point.process_coded is None or stop - start < MIN_CODED or self._timers.in_use:
            return False
        records = chunk.coded(start, stop)
        if records is None or not entry_point.process_coded(records, chunk, start):
            return False
        self._context.row = stop - 1
        self._advance_time(chunk, stop)
        return True

    def _advance_time(self, chunk: DecodedChunk | Interleaved, stop: int) -> None:
        """Advance stream time to the latest record before row ``stop``; the rows before these have advanced it."""
        self._context.stream_time = max(self._context.stream_time, int(chunk.stream_times[stop - 1]))

    def _process_singly(
        self, start: int, process: Process, keys: list[Any], values: list[Any], timestamps: list[int]
    ) -> None:
        """Process records of one entry point, without timers."""
        context, stream_time = self._context, self._context.stream_time
        for context.row, key, value, timestamp in zip(count(start), keys, values, timestamps, strict=False):
            if timestamp > stream_time:
                context.stream_time = stream_time = timestamp
            process(key, value, timestamp)

    def _process_interleaved(
        self, start: int, processes: list[Process], keys: list[Any], values: list[Any], timestamps: list[int]
    ) -> None:
        """Process records of several inputs, without timers."""
        context, stream_time = self._context, self._context.stream_time
        rows = zip(count(start), processes, keys, values, timestamps, strict=False)
        for context.row, process, key, value, timestamp in rows:
            if timestamp > stream_time:
                context.stream_time = stream_time = timestamp
            process(key, value, timestamp)

    def _process_with_timers(
        self, start: int, processes: list[Process], keys: list[Any], values: list[Any], timestamps: list[int]
    ) -> None:
        """Process records, and after each of them the timers that are due."""
        context, timers, stream_time = self._context, self._timers, self._context.stream_time
        rows = zip(count(start), processes, keys, values, timestamps, strict=False)
        for context.row, process, key, value, timestamp in rows:
            if timestamp > stream_time:
                context.stream_time = stream_time = timestamp
            process(key, value, timestamp)
            if timers.stream_due <= stream_time:
                timers.fire("stream", stream_time)
