"""Process consecutive records column by column instead of record by record.

A column batch passes from step to step as long as each step has a single reader that can process columns. From there
on, or where a function takes the context of its record, records are processed one by one. The output is the same, and
so is the order of errors: a step that fails at a record first forwards the records before it. Each function is called
once for each record, in order; but all records of a batch pass the first step before any of them passes the second.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import singledispatch
from itertools import compress
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np

from millstream.functions import Function
from millstream.operators.coded import ProcessCoded
from millstream.operators.protection import IMMUTABLE_TYPES
from millstream.operators.runtime import Process, RecordContext, Runtime
from millstream.plan.node import Node


class Chunk(Protocol):
    """The chunk that the records of a column batch come from."""

    @property
    def stream_times(self) -> Any:
        """For each row of the chunk the latest timestamp up to it, as an array."""


class EndOfBatch:
    """The chunk of a column batch that is created at the end of a batch, when there is no current record."""

    def __init__(self, context: RecordContext, size: int) -> None:
        self._time = context.stream_time
        self._size = size

    @property
    def stream_times(self) -> Any:
        return np.full(self._size, self._time)


class ColumnBatch:
    """Consecutive records of a chunk, or the results computed from them, possibly none; ``rows`` are rows of the chunk.

    A row of the chunk can occur several times, or not at all.
    """

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
    def stream_times(self) -> list[int]:
        """For each record the latest timestamp up to it; records that were filtered out count too."""
        times, rows = self.chunk.stream_times, self.rows
        result: list[int] = (times[rows.start : rows.stop] if isinstance(rows, range) else times[rows]).tolist()
        return result

    def locate(self, row: int) -> tuple[str, int, int]:
        """Return topic, partition and offset of a record, or what says that they are not known: of a row below 0."""
        locate = getattr(self.chunk, "locate", None)
        if locate is None or row < 0:
            return "", -1, -1
        chunk, row_of_chunk = locate(self.rows[row])
        return chunk.topic, chunk.partition, int(chunk.offsets[row_of_chunk])

    def with_keys(self, keys: list[Any]) -> ColumnBatch:
        """Return the records with other keys."""
        return ColumnBatch(self.chunk, self.rows, keys, self.values, self.timestamps)

    def with_values(self, values: list[Any]) -> ColumnBatch:
        """Return the records with other values."""
        return ColumnBatch(self.chunk, self.rows, self.keys, values, self.timestamps)

    def part(self, start: int, stop: int) -> ColumnBatch:
        """Return the records from ``start`` up to ``stop``."""
        if start == 0 and stop == len(self.rows):
            return self
        part = slice(start, stop)
        return ColumnBatch(self.chunk, self.rows[part], self.keys[part], self.values[part], self.timestamps[part])

    def filtered(self, flags: list[Any]) -> ColumnBatch:
        """Return the records whose flag is true."""
        if all(flags):
            return self
        rows, keys, values, timestamps = (
            list(compress(column, flags)) for column in (self.rows, self.keys, self.values, self.timestamps)
        )
        return ColumnBatch(self.chunk, rows, keys, values, timestamps)

    def repeated(self, counts: list[int]) -> ColumnBatch:
        """Return each record as many times as its count says."""
        rows, keys, values, timestamps = (
            [item for item, count in zip(column, counts, strict=True) for _ in range(count)]
            for column in (self.rows, self.keys, self.values, self.timestamps)
        )
        return ColumnBatch(self.chunk, rows, keys, values, timestamps)


ProcessColumns: TypeAlias = Callable[[ColumnBatch], None]

ProcessSides: TypeAlias = Callable[[ColumnBatch, Any], None]
"""Processes records of both inputs of a join, given with an array that says which input each of them comes from."""


class JoinSide(NamedTuple):
    """What column batches of one input of a join need."""

    side: int
    make_process_sides: Callable[[ProcessColumns], ProcessSides]


class ChangeCollector:
    """Collects changes of a table and forwards them as a column batch, without old values.

    A value that the next record may change in place cannot wait: after the changes before it, it is forwarded at once
    by ``forward_single``. With ``is_stable`` no value is changed in place.
    """

    def __init__(
        self, context: RecordContext, forward: ProcessColumns, forward_single: Process, *, is_stable: bool
    ) -> None:
        self._context = context
        self._forward = forward
        self._rows: list[int] = []
        self._keys: list[Any] = []
        self._values: list[Any] = []
        self._timestamps: list[int] = []
        self._send = do_nothing
        self.add = self._adder(forward_single, is_stable=is_stable)
        """Takes a change that the current record has made."""

    def _adder(self, forward_single: Process, *, is_stable: bool) -> Process:
        context, add_row, add_key = self._context, self._rows.append, self._keys.append
        add_value, add_timestamp = self._values.append, self._timestamps.append

        def add(key: Any, new: Any, old: Any, timestamp: int) -> None:
            if not is_stable and type(new) not in IMMUTABLE_TYPES:
                self._send()
                return forward_single(key, new, old, timestamp)
            add_row(context.row)
            add_key(key)
            add_value(new)
            return add_timestamp(timestamp)

        return add

    def sender(self, source: ColumnBatch) -> Callable[[], None]:
        """Return a function that forwards the changes made by ``source`` that have been collected when it is called."""
        columns = self._rows, self._keys, self._values, self._timestamps

        def send() -> None:
            if self._rows:
                row, batch = self._context.row, ColumnBatch(source.chunk, *(column.copy() for column in columns))
                for column in columns:
                    column.clear()
                self._forward(batch)
                self._context.row = row

        self._send = send
        return send


def do_nothing() -> None:
    """Send nothing, where nothing is collected."""


class Port(NamedTuple):
    """An input of a stateful operator that processes both single records and column batches."""

    process: Process
    make_process_columns: Callable[[ProcessColumns | None], ProcessColumns]
    """Returns the function for column batches. Its argument takes a column batch of results, without old values; None
    if a step downstream needs single results, or could see in the state that results are forwarded late."""
    make_process_coded: Callable[[ProcessColumns | None], ProcessCoded | None] | None = None
    """Returns what processes records of which only key and time matter; its argument is as above."""
    join_side: JoinSide | None = None
    """If given, column batches of both inputs are processed together, and results are a stream."""


@singledispatch
def column_operator(
    _node: Node, _forward: ProcessColumns, _single: Process, _runtime: Runtime
) -> ProcessColumns | None:
    """Return what a node does with a column batch, None if it only processes single records, by ``single``."""
    return None


def record_by_record(process: Process, context: RecordContext) -> ProcessColumns:
    """Return a function that passes the records of a column batch to ``process``, one by one.

    It advances ``context.row`` and stream time as the loops of ``RecordLoop`` do.
    """

    def process_columns(batch: ColumnBatch) -> None:
        columns = zip(batch.stream_times, batch.keys, batch.values, batch.timestamps, strict=True)
        for context.row, (stream_time, key, value, timestamp) in zip(batch.rows, columns, strict=True):
            if stream_time > context.stream_time:
                context.stream_time = stream_time
            process(key, value, timestamp)

    return process_columns


def one_side(process: ProcessSides, side: int) -> ProcessColumns:
    """Return a function that processes records of one input of a join."""
    return lambda batch: process(batch, np.full(len(batch.rows), side))


def apply_function(
    node: Node,
    function: Function,
    runtime: Runtime,
    receive: Callable[[ColumnBatch, list[Any]], None],
    collect: Callable[[list[Any], Iterable[Any]], None] = list.extend,
) -> ProcessColumns | None:
    """Return what calls a user function for all records of a column batch; None if it takes the context of each.

    ``collect`` adds results to a list, and raises at a result that the step cannot use; ``receive`` gets the records
    and their results.
    """
    if function.arity == 3:
        return None
    call, by_value, handle_error, context = function.call, function.arity == 1, runtime.handle_error, runtime.context

    def process_columns(batch: ColumnBatch) -> None:
        while batch.rows:
            results: list[Any] = []
            error: Exception = StopIteration()  # if the function raises it, map ends without an error
            try:
                collect(results, map(call, batch.values) if by_value else map(call, batch.keys, batch.values))
            except Exception as raised:
                error = raised
            done = len(results)  # results before an error stay in the list: its length is the position of the error
            receive(batch.part(0, done), results)
            if done == len(batch.rows):
                return
            context.row = batch.rows[done]
            handle_error(node, error, batch.keys[done], batch.timestamps[done])
            batch = batch.part(done + 1, len(batch.rows))

    return process_columns
