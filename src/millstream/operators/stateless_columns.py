"""Stateless steps over column batches.

Actions (peek, foreach) are left out: users expect their effects in the order of records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import groupby
from operator import not_
from typing import Any

from millstream.functions import Function
from millstream.operators.columns import ColumnBatch, ProcessColumns, apply_function, column_operator
from millstream.operators.runtime import Process, Runtime
from millstream.plan.node import Node
from millstream.plan.stateful import ToStream
from millstream.plan.stateless import Filter, FlatMap, FlatMapValues, Map, MapValues, Merge, SelectKey
from millstream.plan.tables import TableFilter, TableMapValues


@column_operator.register(Filter)
def _filter(node: Filter, forward: ProcessColumns, _single: Process, runtime: Runtime) -> ProcessColumns | None:
    def receive(batch: ColumnBatch, flags: list[Any]) -> None:
        forward(batch.filtered(list(map(not_, flags)) if node.negate else flags))

    return apply_function(node, node.predicate, runtime, receive)


@column_operator.register(Map)
def _map(node: Map, forward: ProcessColumns, _single: Process, runtime: Runtime) -> ProcessColumns | None:
    keys: list[Any] = []

    def collect(values: list[Any], pairs: Iterable[Any]) -> None:
        keys.clear()
        for key, value in pairs:  # pairs are not kept: that many new tuples would trigger the garbage collector
            keys.append(key)
            values.append(value)

    def receive(batch: ColumnBatch, values: list[Any]) -> None:
        forward(batch.with_keys(keys.copy()).with_values(values))

    return apply_function(node, node.mapper, runtime, receive, collect)


@column_operator.register(MapValues)
def _map_values(node: MapValues, forward: ProcessColumns, _single: Process, runtime: Runtime) -> ProcessColumns | None:
    return apply_function(node, node.mapper, runtime, lambda batch, values: forward(batch.with_values(values)))


@column_operator.register(SelectKey)
def _select_key(node: SelectKey, forward: ProcessColumns, _single: Process, runtime: Runtime) -> ProcessColumns | None:
    return apply_function(node, node.mapper, runtime, lambda batch, keys: forward(batch.with_keys(keys)))


@column_operator.register(FlatMapValues)
def _flat_map_values(
    node: FlatMapValues, forward: ProcessColumns, _single: Process, runtime: Runtime
) -> ProcessColumns | None:
    def receive(batch: ColumnBatch, lists: list[list[Any]]) -> None:
        forward(batch.repeated(list(map(len, lists))).with_values([value for values in lists for value in values]))

    return apply_function(node, node.mapper, runtime, receive, _collect_lists)


def _collect_lists(lists: list[Any], results: Iterable[Any]) -> None:
    lists.extend(map(list, results))


@column_operator.register(FlatMap)
def _flat_map(node: FlatMap, forward: ProcessColumns, _single: Process, runtime: Runtime) -> ProcessColumns | None:
    def receive(batch: ColumnBatch, lists: list[list[tuple[Any, Any]]]) -> None:
        keys = [key for pairs in lists for key, _ in pairs]
        values = [value for pairs in lists for _, value in pairs]
        forward(batch.repeated(list(map(len, lists))).with_keys(keys).with_values(values))

    return apply_function(node, node.mapper, runtime, receive, _collect_lists_of_pairs)


def _collect_lists_of_pairs(lists: list[Any], results: Iterable[Any]) -> None:
    lists.extend([(key, value) for key, value in pairs] for pairs in results)


@column_operator.register(Merge)
@column_operator.register(ToStream)
def _identity(
    _node: Merge | ToStream, forward: ProcessColumns, _single: Process, _runtime: Runtime
) -> ProcessColumns | None:
    return forward


@column_operator.register(TableMapValues)
def _map_rows(
    node: TableMapValues, forward: ProcessColumns, _single: Process, runtime: Runtime
) -> ProcessColumns | None:
    def receive(batch: ColumnBatch, values: list[Any]) -> None:
        forward(batch.with_values(values))

    return _change_rows(node, forward, runtime, _apply_to_rows(node, node.mapper, runtime, receive))


@column_operator.register(TableFilter)
def _filter_rows(
    node: TableFilter, forward: ProcessColumns, _single: Process, runtime: Runtime
) -> ProcessColumns | None:
    def receive(batch: ColumnBatch, flags: list[Any]) -> None:
        expected = not node.negate
        kept = [value if bool(flag) is expected else None for value, flag in zip(batch.values, flags, strict=True)]
        forward(batch.with_values(kept))

    return _change_rows(node, forward, runtime, _apply_to_rows(node, node.predicate, runtime, receive))


def _apply_to_rows(
    node: Node, function: Function, runtime: Runtime, receive: Callable[[ColumnBatch, list[Any]], None]
) -> ProcessColumns | None:
    compute = function.bind_columns(runtime.context)
    if compute is None:
        return apply_function(node, function, runtime, receive)
    return lambda batch: receive(batch, compute(batch.keys, batch.values, batch.locate))


def _change_rows(
    node: TableMapValues | TableFilter, forward: ProcessColumns, runtime: Runtime, change: ProcessColumns | None
) -> ProcessColumns | None:
    """Return what changes new rows, while tombstones pass; None if old rows or a store are needed."""
    if change is None or node.stored or node in runtime.plan.sending_old:
        return None

    def process_columns(batch: ColumnBatch) -> None:
        if None not in batch.values:
            return change(batch)
        start = 0
        for is_deleted, rows in groupby(batch.values, lambda value: value is None):
            stop = start + sum(1 for _ in rows)
            (forward if is_deleted else change)(batch.part(start, stop))
            start = stop
        return None

    return process_columns
