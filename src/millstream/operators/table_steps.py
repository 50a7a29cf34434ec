"""The work of steps from table to table: filter, map, group and aggregate rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from millstream.operators.aggregation import showing, with_key
from millstream.operators.emitting import Emitter, store_of
from millstream.operators.histories import newest_only, store_with_history, taking_versions
from millstream.operators.protection import protected
from millstream.operators.runtime import Process, Runtime, Step, operator
from millstream.plan.histories import origin_of_history
from millstream.plan.tables import TableAggregate, TableFilter, TableGroupBy, TableMapValues


@operator.register(TableFilter)
def _filter(node: TableFilter, forward: Process, runtime: Runtime) -> Process:
    predicate, wanted = node.predicate.bind(runtime.context), not node.negate

    def kept(key: Any, value: Any) -> Any:
        return value if value is not None and bool(predicate(key, value)) is wanted else None

    return _changing(node, forward, runtime, kept, drops_rows=True)


@operator.register(TableMapValues)
def _map_values(node: TableMapValues, forward: Process, runtime: Runtime) -> Process:
    mapper = node.mapper.bind(runtime.context)

    def mapped(key: Any, value: Any) -> Any:
        return None if value is None else mapper(key, value)

    return _changing(node, forward, runtime, mapped, drops_rows=False)


def _changing(
    node: TableFilter | TableMapValues,
    forward: Process,
    runtime: Runtime,
    change: Callable[[Any, Any], Any],
    *,
    drops_rows: bool,
) -> Process:
    """Change new and old value alike. A filter that knows the old row leaves out the tombstone of one that was not.

    It sends that of a table with history: the old row it is told is the newest one, not the one before this version.
    """
    knows_old, failed = node in runtime.plan.sending_old, runtime.failed
    drops_rows = drops_rows and knows_old and origin_of_history(node.source) is None
    store = store_of(node, runtime) if node.stored else None

    def process(key: Any, new: Any, old: Any, timestamp: int) -> None:
        try:
            new = change(key, new)
            if store is not None:
                row = store.row(key)
                old = row.value
            elif knows_old:
                old = change(key, old)
        except Exception as error:
            return failed(node, error, key)
        if drops_rows and new is None and old is None:
            return None
        if store is not None:
            row.value, row.timestamp = new, timestamp
            store.mark(row)
        return forward(key, new, old, timestamp)

    return process


@operator.register(TableGroupBy)
def _group_by(node: TableGroupBy, forward: Process, runtime: Runtime) -> Process:
    """A half whose group or value is None is left out; the old half goes first, unless both meet in one group."""
    key_of = node.key_of.bind(runtime.context)
    value_of = None if node.value_of is None else node.value_of.bind(runtime.context)
    failed = runtime.failed

    def half(key: Any, value: Any) -> tuple[Any, Any]:
        if value is None:
            return None, None
        group = key_of(key, value)
        return group, value if value_of is None else value_of(key, value)

    def process(key: Any, new: Any, old: Any, timestamp: int) -> None:
        try:
            (new_group, new_value), (old_group, old_value) = half(key, new), half(key, old)
        except Exception as error:
            return failed(node, error, key)
        adds = new_group is not None and new_value is not None
        takes = old_group is not None and old_value is not None
        if adds and takes and new_group == old_group:
            return forward(new_group, (new_value, old_value), timestamp)
        if takes:
            forward(old_group, (None, old_value), timestamp)
        if adds:
            forward(new_group, (new_value, None), timestamp)
        return None

    return newest_only(node.source, process, runtime, node, counted=False)


@operator.register(TableAggregate)
def _aggregate(node: TableAggregate, forward: Process, runtime: Runtime) -> Process:
    """Nothing is taken out of a group that is not there; the result's timestamp never goes back."""
    if node.history is not None:
        return _aggregate_versions(node, forward, runtime)
    store, step = store_of(node, runtime), protected(_taking_out_and_adding(node), node, runtime)
    context = runtime.context
    emit, failed = Emitter(node, store, showing(node, forward, runtime), runtime).at_once, runtime.failed
    select = None if node.select is None else node.select.bind(runtime.context)

    def process(key: Any, pair: tuple[Any, Any], timestamp: int) -> None:
        row = store.row(key)
        before = row.value
        try:
            if select is not None:
                new, old = pair
                pair = None if new is None else select(key, new), None if old is None else select(key, old)
                if pair == (None, None):
                    return None
            aggregate = step(key, before, pair)
        except Exception as error:
            return failed(node, error, key)
        if before is not None and row.timestamp > timestamp:
            timestamp = row.timestamp
        row.value, row.timestamp = aggregate, timestamp
        store.mark(row)
        if emit is not None:
            emit(key, aggregate, before, timestamp)
        elif context.has_headers or row.headers:
            row.headers = context.headers
        return None

    return process


def _aggregate_versions(node: TableAggregate, forward: Process, runtime: Runtime) -> Process:
    newest, take = store_with_history(node, runtime).get, taking_versions(node, forward, runtime)
    step, failed = _taking_out_and_adding(node), runtime.failed

    def process(key: Any, pair: tuple[Any, Any], timestamp: int) -> None:
        before, at = newest(key)
        try:
            aggregate = step(key, before, pair)
        except Exception as error:
            return failed(node, error, key)
        return take(key, aggregate, before, max(at, timestamp))

    return process


def _taking_out_and_adding(node: TableAggregate) -> Step:
    """Return what makes of an aggregate and the (new, old) row of a change the new aggregate."""
    adder, subtractor, initial = with_key(node.adder), with_key(node.subtractor), node.initial

    def step(key: Any, aggregate: Any, pair: tuple[Any, Any]) -> Any:
        new, old = pair
        if old is not None and aggregate is not None:
            aggregate = subtractor(key, aggregate, old)
        if new is None:
            return aggregate
        if aggregate is None:
            return new if initial is None else adder(key, initial(), new)
        return adder(key, aggregate, new)

    return step
