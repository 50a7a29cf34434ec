"""The innermost loops of a task: nothing here but moving on and calling the first operators."""

from __future__ import annotations

from itertools import count
from typing import Any

from millstream.operators.build import Head
from millstream.operators.columns import Run as ColumnRun
from millstream.operators.runtime import Process
from millstream.state.timers import Timers
from millstream.task.current import Current
from millstream.task.merging import Interleaved, Run


class Walk:
    """Goes over the records of all inputs; ``heads`` are what records of each input are given to.

    The row of the context moves with the loops.
    """

    def __init__(self, heads: list[Head], context: Current, timers: Timers) -> None:
        self._heads = heads
        self._processes = [head.process for head in heads]
        self._context = context
        self._timers = timers

    def over(self, stretch: Run | Interleaved) -> int:
        """Process some records and return how many they were."""
        if isinstance(stretch, Interleaved):
            self._context.enter(stretch)
            processes = list(map(self._processes.__getitem__, stretch.numbers))
            each = self._each_with_timers if self._timers.in_use else self._each
            each(0, processes, stretch.keys, stretch.values, stretch.timestamps)
            return len(processes)
        number, chunk, start, stop = stretch
        head, context = self._heads[number], self._context
        context.enter(chunk)
        keys, values, timestamps = chunk.keys[start:stop], chunk.values[start:stop], chunk.timestamps[start:stop]
        if self._timers.in_use:
            self._each_with_timers(start, [head.process] * (stop - start), keys, values, timestamps)
        elif head.process_run is None:
            self._all(start, head.process, keys, values, timestamps)
        else:
            head.process_run(ColumnRun(chunk, range(start, stop), keys, values, timestamps))
            context.stream_time = max(context.stream_time, *timestamps)
        return stop - start

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
