"""Aggregations of groups without windows, for single records and for column batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import repeat
from typing import Any, TypeAlias

from millstream.foundation.coded import CodedRecords
from millstream.functions import AnyFunction
from millstream.operators.aggregation import Step, collector_of, finishing, finishing_columns, with_key
from millstream.operators.coded import ProcessCoded
from millstream.operators.columns import Chunk, ColumnBatch, Port, ProcessColumns, do_nothing
from millstream.operators.emitting import Emitter, store_of
from millstream.operators.protection import may_change_in_place, protected
from millstream.operators.runtime import Process, RecordContext, Runtime, operator
from millstream.plan.stateful import Aggregate, Count, Reduce
from millstream.state.keyvalue import KeyValueStore, StoredRow

Update: TypeAlias = tuple[int, Any, StoredRow, Any, int, int]
"""Row in the chunk, key, stored row of the key, value, timestamp, and the latest timestamp up to the record."""


@operator.register(Count)
def _count(node: Count, forward: Process, runtime: Runtime) -> Port:
    return _aggregation(node, forward, runtime, lambda: 0, lambda _key, count, _value: count + 1)


@operator.register(Reduce)
def _reduce(node: Reduce, forward: Process, runtime: Runtime) -> Port:
    reducer = with_key(node.reducer)

    def step(key: Any, result: Any, value: Any) -> Any:
        return value if result is None else reducer(key, result, value)

    return _aggregation(node, forward, runtime, lambda: None, protected(step, node, runtime))


@operator.register(Aggregate)
def _aggregate(node: Aggregate, forward: Process, runtime: Runtime) -> tuple[Port, ...]:
    in_place = may_change_in_place(node, runtime)
    adders = (with_key(adder, in_place=in_place) for adder in (node.adder, *node.other_adders))
    steps = (protected(adder, node, runtime) for adder in adders)
    return tuple(_aggregation(node, forward, runtime, node.initial, step) for step in steps)


def _aggregation(
    node: Count | Reduce | Aggregate, forward: Process, runtime: Runtime, initial: AnyFunction, step: Step
) -> Port:
    store, context = store_of(node, runtime), runtime.context
    emitter = Emitter(node, store, finishing(node, forward, runtime), runtime)
    update, emit, find = _update_loop(node, runtime, store.mark, initial, step), emitter.emit_now, store.row
    can_count = emit is None and isinstance(node, Count)

    def process(key: Any, value: Any, timestamp: int) -> None:
        row = None if key is None else find(key)
        update(((context.row, key, row, value, timestamp, -1),), emit)

    def make_process_columns(forward_columns: ProcessColumns | None) -> ProcessColumns:
        emitter.flush_to(None if forward_columns is None else finishing_columns(node, forward_columns))
        collector = None
        if emit is not None and forward_columns is not None:
            collector = collector_of(node, forward_columns, forward, runtime)
        emit_all = emit if collector is None else collector.add
        needs_time = emit is not None and collector is None  # steps that get single results may read stream time

        def process_columns(batch: ColumnBatch) -> None:
            if can_count and _can_count(batch, context):
                store.count(batch.keys, batch.timestamps)
                context.row = batch.rows[-1]
                return
            stream_times = batch.stream_times if needs_time else repeat(-1)
            send = do_nothing if collector is None else collector.sender(batch)
            columns = batch.rows, batch.keys, store.rows(batch.keys), batch.values, batch.timestamps, stream_times
            update(zip(*columns, strict=False), emit_all, send)
            send()

        return process_columns

    return Port(process, make_process_columns, (lambda _: _coded_counter(store)) if can_count else None)


def _coded_counter(store: KeyValueStore) -> ProcessCoded:
    """Return what counts coded records by key."""

    def process(records: CodedRecords, _chunk: Chunk, _first_row: int) -> bool:
        if type(None) in map(type, records.keys):
            return False
        store.count(records.keys, records.times, records.codes)
        return True

    return process


def _can_count(batch: ColumnBatch, context: RecordContext) -> bool:
    """Whether all records count, and none of them has headers that its result would carry."""
    none = type(None)
    return bool(batch.rows) and not (
        context.has_headers or none in set(map(type, batch.keys)) or none in set(map(type, batch.values))
    )


def _update_loop(
    node: Count | Reduce | Aggregate,
    runtime: Runtime,
    mark: Callable[[StoredRow], None],
    initial: AnyFunction,
    step: Step,
) -> Callable[..., None]:
    """Return a function that adds records to their rows, in order; it calls ``send`` before it reports an error.

    Records without key or value do not count; the result's timestamp never decreases. The old value of a first result
    is the initial one, as in Kafka Streams: groupings downstream subtract it. Built-in aggregations of groups get None
    instead, since the initial value was never added to them.
    """
    drop, handle_error, regrouped = runtime.drop, runtime.handle_error, node in runtime.plan.regrouped
    context = runtime.context

    def update(records: Iterable[Update], emit: Process | None, send: Callable[[], None] = do_nothing) -> None:
        latest, has_headers = context.stream_time, context.has_headers
        # As in RecordLoop, context.row is the loop variable: errors and headers refer to the current record.
        for context.row, key, row, value, timestamp, stream_time in records:
            if stream_time > latest:
                context.stream_time = latest = stream_time
            if key is None or value is None:
                drop(node, "null_key" if key is None else "null_value")
                continue
            before = row.value
            try:
                old = initial() if before is None else before
                new = step(key, old, value)
            except Exception as error:
                send()
                handle_error(node, error, key, timestamp)
                continue
            if before is not None and row.timestamp > timestamp:
                timestamp = row.timestamp
            row.value, row.timestamp = new, timestamp
            if not row.changed:
                mark(row)
            if emit is not None:
                emit(key, new, before if regrouped else old, timestamp)
            elif has_headers or row.headers:
                row.headers = context.headers

    return update
