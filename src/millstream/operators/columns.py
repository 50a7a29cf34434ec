"""Whole runs of records taken through steps column by column, instead of record by record.

That goes on as long as each step has a single reader that can do the same; from there on, or where a function asks for
the context of its record, records go one by one. What comes out is the same, and so is the order of errors: a step that
fails at a record first passes on those before it. Each function is called once for each record, in order; but all
records of a run go through the first step before one of them goes through the second.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import singledispatch
from itertools import compress
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np

from millstream.functions import Function
from millstream.operators.protection import FIXED
from millstream.operators.runtime import Process, RecordContext, Runtime
from millstream.plan.node import Node


class Chunk(Protocol):
    """Where a run comes from."""

    @property
    def reached(self) -> Any:
        """For each row the latest time up to it, as an array."""


class EndOfBatch:
    """Where a run comes from that no record at hand has set off."""

    def __init__(self, context: RecordContext, size: int) -> None:
        self._time = context.stream_time
        self._size = size

    @property
    def reached(self) -> Any:
        return np.full(self._size, self._time)


class ColumnBatch:
    """Records that follow each other in a chunk, or what became of them, perhaps nothing; ``rows`` are their places."""

    __slots__ = ("chunk", "keys", "rows", "timestamps", "values")

    def __init__(
        self, chunk: Chunk, rows: Sequence[int], keys: list[Any], values: list[Any], timestamps: list[int]
    ) -> None:
        self.chunk = chunk
        self.rows = rows
        self.keys = keys
        self.values = values
        self.timestamps = timestamps

    @property
    def moments(self) -> list[int]:
        """For each record the latest time up to it; the time of one that was left out counts too."""
        reached, rows = self.chunk.reached, self.rows
        found: list[int] = (reached[rows.start : rows.stop] if isinstance(rows, range) else reached[rows]).tolist()
        return found

    def with_keys(self, keys: list[Any]) -> ColumnBatch:
        """Return the records with other keys."""
        return ColumnBatch(self.chunk, self.rows, keys, self.values, self.timestamps)

    def with_values(self, values: list[Any]) -> ColumnBatch:
        """Return the records with other values."""
        return ColumnBatch(self.chunk, self.rows, self.keys, values, self.timestamps)

    def part(self, start: int, stop: int) -> ColumnBatch:
        """Return some of the records."""
        if start == 0 and stop == len(self.rows):
            return self
        part = slice(start, stop)
        return ColumnBatch(self.chunk, self.rows[part], self.keys[part], self.values[part], self.timestamps[part])

    def only(self, flags: list[Any]) -> ColumnBatch:
        """Return the records whose flag is true."""
        if all(flags):
            return self
        rows, keys, values, timestamps = (
            list(compress(column, flags)) for column in (self.rows, self.keys, self.values, self.timestamps)
        )
        return ColumnBatch(self.chunk, rows, keys, values, timestamps)

    def repeated(self, times: list[int]) -> ColumnBatch:
        """Return each record as often as said."""
        rows, keys, values, timestamps = (
            [item for item, count in zip(column, times, strict=True) for _ in range(count)]
            for column in (self.rows, self.keys, self.values, self.timestamps)
        )
        return ColumnBatch(self.chunk, rows, keys, values, timestamps)


ProcessRun: TypeAlias = Callable[[ColumnBatch], None]


class Collected:
    """Changes of a table that are collected, to be passed on as a run; nobody is told the values before.

    A value that the next record may change in place cannot wait: it goes on by ``single`` at once, behind the others.
    """

    def __init__(self, context: RecordContext, forward: ProcessRun, single: Process) -> None:
        self._context = context
        self._forward = forward
        self._rows: list[int] = []
        self._keys: list[Any] = []
        self._values: list[Any] = []
        self._timestamps: list[int] = []
        self._send = do_nothing
        self.add = self._adder(single)
        """Takes a change, as readers see it, that the record at hand has made."""

    def _adder(self, single: Process) -> Process:
        context, add_row, add_key = self._context, self._rows.append, self._keys.append
        add_value, add_timestamp = self._values.append, self._timestamps.append

        def add(key: Any, new: Any, old: Any, timestamp: int) -> None:
            if type(new) not in FIXED:
                self._send()
                return single(key, new, old, timestamp)
            add_row(context.row)
            add_key(key)
            add_value(new)
            return add_timestamp(timestamp)

        return add

    def sender(self, source: ColumnBatch) -> Callable[[], None]:
        """Return what passes on the changes that come from a run, as many as have been collected by then."""
        columns = self._rows, self._keys, self._values, self._timestamps

        def send() -> None:
            if self._rows:
                row, run = self._context.row, ColumnBatch(source.chunk, *(column.copy() for column in columns))
                for column in columns:
                    column.clear()
                self._forward(run)
                self._context.row = row

        self._send = send
        return send


def do_nothing() -> None:
    """Where nothing is collected, nothing is to be sent."""


class Port(NamedTuple):
    """A way into an operator with state that takes both single records and runs."""

    process: Process
    over_runs: Callable[[ProcessRun | None], ProcessRun]
    """Returns what takes a run. It is given what takes a run of results, without the values before; None if a step
    behind wants single ones, or could see by the state that a result comes late."""


@singledispatch
def column_operator(_node: Node, _forward: ProcessRun, _single: Process, _runtime: Runtime) -> ProcessRun | None:
    """Return what a node does with a run, or None if it takes records one by one; ``single`` is how it does that."""
    return None


def one_by_one(process: Process, context: RecordContext) -> ProcessRun:
    """Return what gives the records of a run to a step that takes them one by one."""

    def process_run(run: ColumnBatch) -> None:
        columns = zip(run.moments, run.keys, run.values, run.timestamps, strict=True)
        for context.row, (moment, key, value, timestamp) in zip(run.rows, columns, strict=True):
            if moment > context.stream_time:
                context.stream_time = moment
            process(key, value, timestamp)

    return process_run


def calling(
    node: Node,
    function: Function,
    runtime: Runtime,
    receive: Callable[[ColumnBatch, list[Any]], None],
    collect: Callable[[list[Any], Iterable[Any]], None] = list.extend,
) -> ProcessRun | None:
    """Return what calls a user function for all records of a run; None if it asks for the context of each.

    ``collect`` adds results to a list, and raises at one that the step cannot use; ``receive`` gets both records and
    results.
    """
    if function.arity == 3:
        return None
    call, by_value, failed, context = function.call, function.arity == 1, runtime.failed, runtime.context

    def process(run: ColumnBatch) -> None:
        while run.rows:
            results: list[Any] = []
            error: Exception = StopIteration()  # which map takes for its own end, if the function raises it
            try:
                collect(results, map(call, run.values) if by_value else map(call, run.keys, run.values))
            except Exception as raised:
                error = raised
            done = len(results)  # results before an error stay in the list, so that its length tells where it was
            receive(run.part(0, done), results)
            if done == len(run.rows):
                return
            context.row = run.rows[done]
            failed(node, error, run.keys[done])
            run = run.part(done + 1, len(run.rows))

    return process
