"""The innermost loops of a task: nothing here but moving on and calling the first operators."""

from __future__ import annotations

from itertools import count
from typing import Any

from millstream.operators.build import Head
from millstream.operators.columns import ColumnBatch
from millstream.operators.runtime import Process
from millstream.state.timers import Timers
from millstream.task.current import Current
from millstream.task.inputs import Decoded
from millstream.task.merging import ChunkSlice, Interleaved


class Walk:
    """Goes over the records of all inputs; ``heads`` are what records of each input are given to.

    The row of the context moves with the loops.
    """

    def __init__(self, heads: list[Head], context: Current, timers: Timers) -> None:
        self._heads = heads
        self._processes = [head.process for head in heads]
        self._only_head = heads[0] if len(set(self._processes)) == 1 else None
        self._context = context
        self._timers = timers

    def over(self, stretch: ChunkSlice | Interleaved) -> int:
        """Process some records and return how many they were."""
        if isinstance(stretch, Interleaved):
            self._context.enter(stretch)
            columns = stretch.keys, stretch.values, stretch.timestamps
            if self._only_head is not None:
                self._along(self._only_head, stretch, range(len(stretch.keys)), *columns)
                return len(stretch.keys)
            processes = list(map(self._processes.__getitem__, stretch.numbers))
            each = self._each_with_timers if self._timers.in_use else self._each
            each(0, processes, *columns)
            return len(processes)
        number, chunk, start, stop = stretch
        self._context.enter(chunk)
        columns = chunk.keys[start:stop], chunk.values[start:stop], chunk.timestamps[start:stop]
        self._along(self._heads[number], chunk, range(start, stop), *columns)
        return stop - start

    def _along(
        self,
        head: Head,
        chunk: Decoded | Interleaved,
        rows: range,
        keys: list[Any],
        values: list[Any],
        timestamps: list[int],
    ) -> None:
        """Process records that all go to the same place."""
        if self._timers.in_use:
            self._each_with_timers(rows.start, [head.process] * len(rows), keys, values, timestamps)
        elif head.process_run is None:
            self._all(rows.start, head.process, keys, values, timestamps)
        else:
            head.process_run(ColumnBatch(chunk, rows, keys, values, timestamps))
            latest = max(timestamps)
            self._context.stream_time = max(self._context.stream_time, latest)

    def _all(self, start: int, process: Process, keys: list[Any], values: list[Any], timestamps: list[int]) -> None:
        """One process for all records, and no timers."""
        context, stream_time = self._context, self._context.stream_time
        for context.row, key, value, timestamp in zip(count(start), keys, values, timestamps, strict=False):
            if timestamp > stream_time:
                context.stream_time = stream_time = timestamp
            process(key, value, timestamp)

    def _each(
        self, start: int, processes: list[Process], keys: list[Any], values: list[Any], timestamps: list[int]
    ) -> None:
        """Records of several inputs, and no timers."""
        context, stream_time = self._context, self._context.stream_time
        rows = zip(count(start), processes, keys, values, timestamps, strict=False)
        for context.row, process, key, value, timestamp in rows:
            if timestamp > stream_time:
                context.stream_time = stream_time = timestamp
            process(key, value, timestamp)

    def _each_with_timers(
        self, start: int, processes: list[Process], keys: list[Any], values: list[Any], timestamps: list[int]
    ) -> None:
        """Records that may make timers due."""
        context, timers, stream_time = self._context, self._timers, self._context.stream_time
        rows = zip(count(start), processes, keys, values, timestamps, strict=False)
        for context.row, process, key, value, timestamp in rows:
            if timestamp > stream_time:
                context.stream_time = stream_time = timestamp
            process(key, value, timestamp)
            if timers.stream_due <= stream_time:
                timers.fire("stream", stream_time)
