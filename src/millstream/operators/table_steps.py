"""Steps from table to table: filter, map, group and aggregate rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from millstream.operators.aggregation import finishing, with_key
from millstream.operators.emitting import Emitter, store_of
from millstream.operators.histories import newest_only, store_with_history, version_writer
from millstream.operators.protection import protected
from millstream.operators.runtime import Process, Runtime, Step, operator
from millstream.plan.histories import origin_of_history
from millstream.plan.tables import TableAggregate, TableFilter, TableGroupBy, TableMapValues


@operator.register(TableFilter)
def _filter(node: TableFilter, forward: Process, runtime: Runtime) -> Process:
    predicate, expected = node.predicate.bind(runtime.context), not node.negate

    def kept(key: Any, value: Any) -> Any:
        return value if value is not None and bool(predicate(key, value)) is expected else None

    return _change_rows(node, forward, runtime, kept, drops_rows=True)


@operator.register(TableMapValues)
def _map_values(node: TableMapValues, forward: Process, runtime: Runtime) -> Process:
    mapper = node.mapper.bind(runtime.context)

    def mapped(key: Any, value: Any) -> Any:
        return None if value is None else mapper(key, value)

    return _change_rows(node, forward, runtime, mapped, drops_rows=False)


def _change_rows(
    node: TableFilter | TableMapValues,
    forward: Process,
    runtime: Runtime,
    change: Callable[[Any, Any], Any],
    *,
    drops_rows: bool,
) -> Process:
    """Apply ``change`` to new and old values. A filter that gets old rows sends no tombstone for a row it had dropped.

    For a table with history it does: the old row is then the newest version, not the version before this one.
    """
    has_old, handle_error = node in runtime.plan.sending_old, runtime.handle_error
    drops_rows = drops_rows and has_old and origin_of_history(node.source) is None
    store = store_of(node, runtime) if node.stored else None

    def process(key: Any, new: Any, old: Any, timestamp: int) -> None:
        try:
            new = change(key, new)
            if store is not None:
                row = store.row(key)
                old = row.value
            elif has_old:
                old = change(key, old)
        except Exception as error:
            return handle_error(node, error, key, timestamp)
        if drops_rows and new is None and old is None:
            return None
        if store is not None:
            row.value, row.timestamp = new, timestamp
            store.mark(row)
        return forward(key, new, old, timestamp)

    return process


@operator.register(TableGroupBy)
def _group_by(node: TableGroupBy, forward: Process, runtime: Runtime) -> Process:
    """Send the old half, then the new one, or both as one pair for the same group; leave out halves that are None."""
    key_of = node.key_of.bind(runtime.context)
    value_of = None if node.value_of is None else node.value_of.bind(runtime.context)
    handle_error = runtime.handle_error

    def half(key: Any, value: Any) -> tuple[Any, Any]:
        if value is None:
            return None, None
        group = key_of(key, value)
        return group, value if value_of is None else value_of(key, value)

    def process(key: Any, new: Any, old: Any, timestamp: int) -> None:
        try:
            (new_group, new_value), (old_group, old_value) = half(key, new), half(key, old)
        except Exception as error:
            return handle_error(node, error, key, timestamp)
        adds = new_group is not None and new_value is not None
        subtracts = old_group is not None and old_value is not None
        if adds and subtracts and new_group == old_group:
            return forward(new_group, (new_value, old_value), timestamp)
        if subtracts:
            forward(old_group, (None, old_value), timestamp)
        if adds:
            forward(new_group, (new_value, None), timestamp)
        return None

    return newest_only(node.source, process, runtime, node, counted=False)


@operator.register(TableAggregate)
def _aggregate(node: TableAggregate, forward: Process, runtime: Runtime) -> Process:
    """Subtract nothing from a group that does not exist; the result's timestamp never decreases."""
    if node.history is not None:
        return _aggregate_versions(node, forward, runtime)
    store, step = store_of(node, runtime), protected(_subtract_and_add(node), node, runtime)
    context = runtime.context
    emit, handle_error = Emitter(node, store, finishing(node, forward, runtime), runtime).emit_now, runtime.handle_error
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
            return handle_error(node, error, key, timestamp)
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
    newest, put_version = store_with_history(node, runtime).get, version_writer(node, forward, runtime)
    step, handle_error = _subtract_and_add(node), runtime.handle_error

    def process(key: Any, pair: tuple[Any, Any], timestamp: int) -> None:
        before, at = newest(key)
        try:
            aggregate = step(key, before, pair)
        except Exception as error:
            return handle_error(node, error, key, timestamp)
        return put_version(key, aggregate, before, max(at, timestamp))

    return process


def _subtract_and_add(node: TableAggregate) -> Step:
    """Return the step that computes the new aggregate from the old one and the (new, old) rows of a change."""
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
