"""The work of aggregations of groups without windows, over single records and over runs of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import repeat
from typing import Any, TypeAlias

from millstream.functions import AnyFunction
from millstream.operators.aggregation import showing, showing_runs, with_key
from millstream.operators.columns import Collected, ColumnBatch, Port, ProcessRun, do_nothing
from millstream.operators.emitting import Emitter, store_of
from millstream.operators.protection import protected
from millstream.operators.runtime import Process, Runtime, Step, operator
from millstream.plan.stateful import Aggregate, Count, Reduce
from millstream.state.keyvalue import StoredRow

Update: TypeAlias = tuple[int, Any, StoredRow, Any, int, int]
"""Place in the chunk, key, row of the key, value, timestamp, and the latest time up to the record."""


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
    steps = (protected(with_key(adder), node, runtime) for adder in (node.adder, *node.other_adders))
    return tuple(_aggregation(node, forward, runtime, node.initial, step) for step in steps)


def _aggregation(
    node: Count | Reduce | Aggregate, forward: Process, runtime: Runtime, initial: AnyFunction, step: Step
) -> Port:
    store, context = store_of(node, runtime), runtime.context
    emitter = Emitter(node, store, showing(node, forward, runtime), runtime)
    update, emit, find = _updating(node, runtime, store.mark, initial, step), emitter.at_once, store.row

    def process(key: Any, value: Any, timestamp: int) -> None:
        row = None if key is None else find(key)
        update(((context.row, key, row, value, timestamp, -1),), emit)

    def over_runs(forward_run: ProcessRun | None) -> ProcessRun:
        emitter.flushing_to(None if forward_run is None else showing_runs(node, forward_run))
        collected = None if emit is None or forward_run is None else Collected(context, forward_run, forward)
        emit_all = emit if collected is None else showing(node, collected.add, runtime)
        wants_time = emit is not None and collected is None  # who is given single results asks what time it is

        def process_run(run: ColumnBatch) -> None:
            moments = run.moments if wants_time else repeat(-1)
            send = do_nothing if collected is None else collected.sender(run)
            columns = run.rows, run.keys, store.rows(run.keys), run.values, run.timestamps, moments
            update(zip(*columns, strict=False), emit_all, send)
            send()

        return process_run

    return Port(process, over_runs)


def _updating(
    node: Count | Reduce | Aggregate,
    runtime: Runtime,
    mark: Callable[[StoredRow], None],
    initial: AnyFunction,
    step: Step,
) -> Callable[..., None]:
    """Return what takes records into their rows, in order; ``send`` is called before one is said to have failed.

    Records without key or value do not count; the result's timestamp never goes back. The old value of a first result
    is the initial one, as in Kafka Streams: groupings behind it take it out. But not for ready aggregations of groups,
    to which it was never added.
    """
    dropped, failed, regrouped = runtime.dropped, runtime.failed, node in runtime.plan.regrouped
    context = runtime.context

    def update(records: Iterable[Update], emit: Process | None, send: Callable[[], None] = do_nothing) -> None:
        reached, has_headers = context.stream_time, context.has_headers
        for context.row, key, row, value, timestamp, moment in records:
            if moment > reached:
                context.stream_time = reached = moment
            if key is None or value is None:
                dropped(node, "null_key" if key is None else "null_value")
                continue
            found = row.value
            try:
                old = initial() if found is None else found
                new = step(key, old, value)
            except Exception as error:
                send()
                failed(node, error, key)
                continue
            if found is not None and row.timestamp > timestamp:
                timestamp = row.timestamp
            row.value, row.timestamp = new, timestamp
            if not row.changed:
                mark(row)
            if emit is not None:
                emit(key, new, found if regrouped else old, timestamp)
            elif has_headers or row.headers:
                row.headers = context.headers

    return update
