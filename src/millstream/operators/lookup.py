"""Look up the row of a key in a table: in its store, or computed from the tables upstream."""

from __future__ import annotations

from collections.abc import Callable
from functools import singledispatch
from typing import Any, TypeAlias

from millstream.aggregations import finisher
from millstream.foundation.object_codec import value_codec
from millstream.operators.aggregation import store_of_windows, with_key
from millstream.operators.histories import store_with_history
from millstream.operators.runtime import Runtime
from millstream.plan.histories import history_of
from millstream.plan.node import Node
from millstream.plan.stateful import WindowedAggregate
from millstream.plan.tables import TableFilter, TableMapValues, TableTableJoin
from millstream.records import Windowed
from millstream.windows import SessionWindows

Lookup: TypeAlias = Callable[[Any], tuple[Any, int]]
"""key → (value, timestamp); the value of a missing row is None and its timestamp -1."""


def lookup(node: Node, runtime: Runtime) -> Lookup:
    """Return the lookup in a table."""
    look = _stored(node, runtime) if getattr(node, "stored", False) else computed(node, runtime)
    ready = getattr(node, "ready", None)
    return look if ready is None else _finished(look, finisher(ready, getattr(node, "build", None)))


def _finished(look: Lookup, finish: Callable[[Any], Any]) -> Lookup:
    def finished(key: Any) -> tuple[Any, int]:
        aggregate, timestamp = look(key)
        return finish(aggregate), timestamp

    return finished


def _stored(node: Node, runtime: Runtime) -> Lookup:
    if history_of(node) is not None:
        return store_with_history(node, runtime).get
    return runtime.store(node, value_codec(runtime.plan.declared[node].value)).find


@singledispatch
def computed(node: Node, runtime: Runtime) -> Lookup:
    """Return the lookup in a table without a store, which computes rows from the tables upstream."""
    return _stored(node, runtime)


@computed.register(WindowedAggregate)
def _window(node: WindowedAggregate, runtime: Runtime) -> Lookup:
    store, entry_key = store_of_windows(node, runtime), node.windows.position_of
    # as in Kafka Streams, the store of final results also finds a window at the very edge of its retention
    reach = 0 if node.final and not isinstance(node.windows, SessionWindows) else 1

    # with caching, results meet at the end of a batch, which may be longer in time than windows are kept: those that
    # have expired meanwhile are found, as in the cache of Kafka Streams
    caching = runtime.caching

    def look(key: Windowed) -> tuple[Any, int]:
        entry = store.entry(key.key, entry_key(key))
        expired = store.expired_before if caching else store.expired
        return (entry.value, entry.timestamp) if entry.position[0] >= expired + reach else (None, -1)

    return look


@computed.register(TableFilter)
def _filter(node: TableFilter, runtime: Runtime) -> Lookup:
    source, predicate, expected = lookup(node.source, runtime), node.predicate.bind(runtime.context), not node.negate

    def look(key: Any) -> tuple[Any, int]:
        value, timestamp = source(key)
        return (value, timestamp) if value is not None and bool(predicate(key, value)) is expected else (None, -1)

    return look


@computed.register(TableMapValues)
def _map_values(node: TableMapValues, runtime: Runtime) -> Lookup:
    source, mapper = lookup(node.source, runtime), node.mapper.bind(runtime.context)

    def look(key: Any) -> tuple[Any, int]:
        value, timestamp = source(key)
        mapped = None if value is None else mapper(key, value)
        return (None, -1) if mapped is None else (mapped, timestamp)

    return look


@computed.register(TableTableJoin)
def _join(node: TableTableJoin, runtime: Runtime) -> Lookup:
    left, right, joiner = lookup(node.left, runtime), lookup(node.right, runtime), with_key(node.joiner)
    needs_left, needs_right = {"inner": (True, True), "left": (True, False), "outer": (False, False)}[node.kind]

    def look(key: Any) -> tuple[Any, int]:
        (left_value, left_timestamp), (right_value, right_timestamp) = left(key), right(key)
        if left_value is None and (right_value is None or needs_left):
            return None, -1
        if right_value is None and needs_right:
            return None, -1
        return joiner(key, left_value, right_value), max(left_timestamp, right_timestamp)

    return look
