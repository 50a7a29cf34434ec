"""Stateless steps over whole runs of records.

Actions (peek, foreach) are left out: people want to see what they do in the order of records.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import not_
from typing import Any

from millstream.operators.columns import ColumnBatch, ProcessRun, calling, column_operator
from millstream.operators.runtime import Process, Runtime
from millstream.plan.stateful import ToStream
from millstream.plan.stateless import Filter, FlatMap, FlatMapValues, Map, MapValues, Merge, SelectKey


@column_operator.register(Filter)
def _filter(node: Filter, forward: ProcessRun, _single: Process, runtime: Runtime) -> ProcessRun | None:
    def receive(run: ColumnBatch, flags: list[Any]) -> None:
        forward(run.only(list(map(not_, flags)) if node.negate else flags))

    return calling(node, node.predicate, runtime, receive)


@column_operator.register(Map)
def _map(node: Map, forward: ProcessRun, _single: Process, runtime: Runtime) -> ProcessRun | None:
    keys: list[Any] = []

    def collect(values: list[Any], found: Iterable[Any]) -> None:
        keys.clear()
        for key, value in found:  # pairs are not kept: that many new tuples would set off the garbage collector
            keys.append(key)
            values.append(value)

    def receive(run: ColumnBatch, values: list[Any]) -> None:
        forward(run.with_keys(keys.copy()).with_values(values))

    return calling(node, node.mapper, runtime, receive, collect)


@column_operator.register(MapValues)
def _map_values(node: MapValues, forward: ProcessRun, _single: Process, runtime: Runtime) -> ProcessRun | None:
    return calling(node, node.mapper, runtime, lambda run, values: forward(run.with_values(values)))


@column_operator.register(SelectKey)
def _select_key(node: SelectKey, forward: ProcessRun, _single: Process, runtime: Runtime) -> ProcessRun | None:
    return calling(node, node.mapper, runtime, lambda run, keys: forward(run.with_keys(keys)))


@column_operator.register(FlatMapValues)
def _flat_map_values(node: FlatMapValues, forward: ProcessRun, _single: Process, runtime: Runtime) -> ProcessRun | None:
    def receive(run: ColumnBatch, lists: list[list[Any]]) -> None:
        forward(run.repeated(list(map(len, lists))).with_values([value for values in lists for value in values]))

    return calling(node, node.mapper, runtime, receive, _collect_lists)


def _collect_lists(lists: list[Any], found: Iterable[Any]) -> None:
    lists.extend(map(list, found))


@column_operator.register(FlatMap)
def _flat_map(node: FlatMap, forward: ProcessRun, _single: Process, runtime: Runtime) -> ProcessRun | None:
    def receive(run: ColumnBatch, lists: list[list[tuple[Any, Any]]]) -> None:
        keys = [key for pairs in lists for key, _ in pairs]
        values = [value for pairs in lists for _, value in pairs]
        forward(run.repeated(list(map(len, lists))).with_keys(keys).with_values(values))

    return calling(node, node.mapper, runtime, receive, _collect_lists_of_pairs)


def _collect_lists_of_pairs(lists: list[Any], found: Iterable[Any]) -> None:
    lists.extend([(key, value) for key, value in pairs] for pairs in found)


@column_operator.register(Merge)
@column_operator.register(ToStream)
def _as_it_is(_node: Merge | ToStream, forward: ProcessRun, _single: Process, _runtime: Runtime) -> ProcessRun | None:
    return forward
