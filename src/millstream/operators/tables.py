"""The work of tables: aggregations, tables of topics and streams, and looking rows up.

An update reads the row, computes the new value and passes (key, new, old) on. With caching on it is passed on once
per key at the end of the batch, with the last new value and the first old one.
"""

from __future__ import annotations

from typing import Any

from millstream.functions import AnyFunction
from millstream.native import value_codec
from millstream.operators.aggregation import Step, showing, with_key
from millstream.operators.as_of_joins import join_as_of
from millstream.operators.histories import store_with_history, taking_versions
from millstream.operators.lookup import lookup
from millstream.operators.missing import asking
from millstream.operators.protection import protected
from millstream.operators.runtime import Process, Runtime, operator
from millstream.plan.histories import origin_of_history
from millstream.plan.node import Node
from millstream.plan.sources import TableSource
from millstream.plan.stateful import Aggregate, Count, Reduce, StreamTableJoin, ToStream, ToTable
from millstream.state.keyvalue import KeyValueStore


@operator.register(Count)
def _count(node: Count, forward: Process, runtime: Runtime) -> Process:
    return _aggregation(node, forward, runtime, lambda: 0, lambda _key, count, _value: count + 1)


@operator.register(Reduce)
def _reduce(node: Reduce, forward: Process, runtime: Runtime) -> Process:
    reducer = with_key(node.reducer)

    def step(key: Any, result: Any, value: Any) -> Any:
        return value if result is None else reducer(key, result, value)

    return _aggregation(node, forward, runtime, lambda: None, protected(step, node, runtime))


@operator.register(Aggregate)
def _aggregate(node: Aggregate, forward: Process, runtime: Runtime) -> tuple[Process, ...]:
    adders, forward = (node.adder, *node.other_adders), showing(node, forward, runtime)
    steps = (protected(with_key(adder), node, runtime) for adder in adders)
    return tuple(_aggregation(node, forward, runtime, node.initial, step) for step in steps)


@operator.register(ToTable)
@operator.register(TableSource)
def _rows(node: ToTable | TableSource, forward: Process, runtime: Runtime) -> Process:
    """The last record by offset is the row, whatever its timestamp; with a history the last one by timestamp."""
    if node.history is not None:
        return _versions(node, forward, runtime)
    store = store_of(node, runtime)
    find, mark, emit = store.row, store.mark, emitter(node, store, forward, runtime)
    dropped, context = runtime.dropped, runtime.context

    def process(key: Any, value: Any, timestamp: int) -> None:
        if key is None:
            return dropped(node, "null_key")
        row = find(key)
        old, row.value, row.timestamp = row.value, value, timestamp
        if not row.changed:
            mark(row)
        if emit is not None:
            emit(key, value, old, timestamp)
        elif context.has_headers or row.headers:
            row.headers = context.headers
        return None

    return process


def _versions(node: ToTable | TableSource, forward: Process, runtime: Runtime) -> Process:
    newest, take = store_with_history(node, runtime).get, taking_versions(node, forward, runtime)
    dropped = runtime.dropped

    def process(key: Any, value: Any, timestamp: int) -> None:
        if key is None:
            return dropped(node, "null_key")
        return take(key, value, newest(key)[0], timestamp)

    return process


def _aggregation(node: Node, forward: Process, runtime: Runtime, initial: AnyFunction, step: Step) -> Process:
    """Records without key or value do not count; the result's timestamp never goes back.

    The old value of a first result is the initial one, as in Kafka Streams: groupings behind it take it out. But not
    for ready aggregations of groups, to which it was never added.
    """
    store = store_of(node, runtime)
    find, mark, emit = store.row, store.mark, emitter(node, store, forward, runtime)
    dropped, failed, regrouped = runtime.dropped, runtime.failed, node in runtime.plan.regrouped
    context = runtime.context

    def process(key: Any, value: Any, timestamp: int) -> None:
        if key is None or value is None:
            return dropped(node, "null_key" if key is None else "null_value")
        row = find(key)
        found = row.value
        try:
            old = initial() if found is None else found
            new = step(key, old, value)
        except Exception as error:
            return failed(node, error, key)
        if found is not None and row.timestamp > timestamp:
            timestamp = row.timestamp
        row.value, row.timestamp = new, timestamp
        if not row.changed:
            mark(row)
        if emit is not None:
            emit(key, new, found if regrouped else old, timestamp)
        elif context.has_headers or row.headers:
            row.headers = context.headers
        return None

    return process


def store_of(node: Node, runtime: Runtime) -> KeyValueStore:
    """Return the store of the table that a node keeps."""
    return runtime.store(node, value_codec(runtime.plan.declared[node].value))


def emitter(node: Node, store: KeyValueStore, forward: Process, runtime: Runtime) -> Process | None:
    """Return what passes each update on, or None if that waits until the end of the batch.

    What waits carries the headers of the last update then, which its operator leaves at the row.
    """
    if not runtime.caching:
        return forward
    context = runtime.context

    def flush() -> None:
        for row in store.take_changed():
            before, carried = row.before, context.carry(row.headers) if row.headers else None
            store.settle(row)
            forward(row.key, row.value, before, row.timestamp)
            if carried is not None:
                context.restore(carried)

    runtime.on_flush(node, flush)
    return None


@operator.register(ToStream)
def _to_stream(_node: ToStream, forward: Process, _runtime: Runtime) -> Process:
    def process(key: Any, new: Any, _old: Any, timestamp: int) -> None:
        forward(key, new, timestamp)

    return process


@operator.register(StreamTableJoin)
def _stream_table_join(node: StreamTableJoin, forward: Process, runtime: Runtime) -> tuple[Process, Process]:
    """The row is the one at processing time, of a table with history the one at the record's time.

    A change of the table alone emits nothing.
    """
    if origin_of_history(node.table) is not None:
        return join_as_of(node, forward, runtime), _ignore_table
    find, left, join, takes_key = lookup(node.table, runtime), node.left, node.joiner.call, node.joiner.arity == 3
    dropped, failed, check = runtime.dropped, runtime.failed, asking(node.table, runtime)

    def from_stream(key: Any, value: Any, timestamp: int) -> None:
        if value is None or (key is None and not left):
            return dropped(node, "null_value" if value is None else "null_key")
        try:
            row = None
            if key is not None:
                row = find(key)[0]
                if row is None:
                    check(key)
            if row is None and not left:
                return None
            joined = join(key, value, row) if takes_key else join(value, row)
        except Exception as error:
            return failed(node, error, key)
        return forward(key, joined, timestamp)

    return from_stream, _ignore_table


def _ignore_table(_key: Any, _new: Any, _old: Any, _timestamp: int) -> None:
    """A change of the table has no effect on a join until a record asks for the row."""
