"""Tables with history: store versions, forward them, and look up rows as of a time."""

from __future__ import annotations

from collections.abc import Callable
from functools import singledispatch
from typing import Any, TypeAlias

from millstream.foundation.object_codec import value_codec
from millstream.operators.runtime import Process, Runtime
from millstream.plan.histories import origin_of_history
from millstream.plan.node import Node
from millstream.plan.tables import TableFilter, TableMapValues
from millstream.state.versioned import PutResult, VersionedStore

LookupAsOf: TypeAlias = Callable[[Any, int], tuple[Any, int]]
"""(key, time) → (value, timestamp) of the version that was valid at that time; (None, -1) if there was none."""


def store_with_history(node: Node, runtime: Runtime) -> VersionedStore:
    """Return the store of a table that keeps its history."""
    return runtime.versioned_store(node, value_codec(runtime.plan.declared[node].value))


def version_writer(node: Node, forward: Process, runtime: Runtime) -> Process:
    """Return what stores a version of a row and forwards it; drops and counts versions older than the history."""
    store, drop = store_with_history(node, runtime), runtime.drop

    def put(key: Any, new: Any, old: Any, timestamp: int) -> None:
        result = store.put(key, new, timestamp)
        if result is PutResult.TOO_OLD:
            return drop(node, "late")
        store.is_forwarding_older = result is PutResult.OLDER
        return forward(key, new, old, timestamp)

    return put


def newest_only(table: Node, process: Process, runtime: Runtime, reader: Node, *, counted: bool) -> Process:
    """Return ``process`` without the updates that are not the newest version of their row.

    Only tables with history have such updates; with ``counted`` they are counted as dropped.
    """
    origin = origin_of_history(table)
    if origin is None:
        return process
    store, drop = store_with_history(origin, runtime), runtime.drop

    def process_newest(key: Any, new: Any, old: Any, timestamp: int) -> None:
        if not store.is_forwarding_older:
            process(key, new, old, timestamp)
        elif counted:
            drop(reader, "out_of_order")

    return process_newest


def lookup_as_of(table: Node, runtime: Runtime) -> LookupAsOf:
    """Return the lookup in a table with history as of a time."""
    return as_of(table, runtime) if table is not origin_of_history(table) else _stored(table, runtime)


def _stored(table: Node, runtime: Runtime) -> LookupAsOf:
    return store_with_history(table, runtime).get_as_of


@singledispatch
def as_of(table: Node, runtime: Runtime) -> LookupAsOf:
    """Return the lookup as of a time in a table that is computed from the versions of a table upstream."""
    return _stored(table, runtime)


@as_of.register(TableFilter)
def _filter(node: TableFilter, runtime: Runtime) -> LookupAsOf:
    source, expected = lookup_as_of(node.source, runtime), not node.negate
    predicate = node.predicate.bind(runtime.context)

    def look(key: Any, time: int) -> tuple[Any, int]:
        value, timestamp = source(key, time)
        return (value, timestamp) if value is not None and bool(predicate(key, value)) is expected else (None, -1)

    return look


@as_of.register(TableMapValues)
def _map_values(node: TableMapValues, runtime: Runtime) -> LookupAsOf:
    source, mapper = lookup_as_of(node.source, runtime), node.mapper.bind(runtime.context)

    def look(key: Any, time: int) -> tuple[Any, int]:
        value, timestamp = source(key, time)
        return (None, -1) if value is None else (mapper(key, value), timestamp)

    return look
