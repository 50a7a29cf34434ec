"""Tables of topics and streams, and joins that look up their rows."""

from __future__ import annotations

from typing import Any

from millstream.operators.as_of_joins import join_as_of
from millstream.operators.emitting import Emitter, store_of
from millstream.operators.histories import store_with_history, version_writer
from millstream.operators.lookup import lookup
from millstream.operators.missing import key_type_check
from millstream.operators.runtime import Process, Runtime, operator
from millstream.plan.histories import origin_of_history
from millstream.plan.sources import TableSource
from millstream.plan.stateful import StreamTableJoin, ToStream, ToTable


@operator.register(ToTable)
@operator.register(TableSource)
def _rows(node: ToTable | TableSource, forward: Process, runtime: Runtime) -> Process:
    """Keep the last record by offset as the row, regardless of timestamps; with a history the last one by timestamp."""
    if node.history is not None:
        return _versions(node, forward, runtime)
    store = store_of(node, runtime)
    find, mark, emit = store.row, store.mark, Emitter(node, store, forward, runtime).emit_now
    drop, context = runtime.drop, runtime.context

    def process(key: Any, value: Any, timestamp: int) -> None:
        if key is None:
            return drop(node, "null_key")
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
    newest, put_version = store_with_history(node, runtime).get, version_writer(node, forward, runtime)
    drop = runtime.drop

    def process(key: Any, value: Any, timestamp: int) -> None:
        if key is None:
            return drop(node, "null_key")
        return put_version(key, value, newest(key)[0], timestamp)

    return process


@operator.register(ToStream)
def _to_stream(_node: ToStream, forward: Process, _runtime: Runtime) -> Process:
    def process(key: Any, new: Any, _old: Any, timestamp: int) -> None:
        forward(key, new, timestamp)

    return process


@operator.register(StreamTableJoin)
def _stream_table_join(node: StreamTableJoin, forward: Process, runtime: Runtime) -> tuple[Process, Process]:
    """Join with the row at processing time; for a table with history, with the row at the record's timestamp.

    A change of the table alone emits nothing.
    """
    if origin_of_history(node.table) is not None:
        return join_as_of(node, forward, runtime), _ignore_table
    find, left, join, takes_key = lookup(node.table, runtime), node.left, node.joiner.call, node.joiner.arity == 3
    drop, handle_error, check = runtime.drop, runtime.handle_error, key_type_check(node.table, runtime)

    def from_stream(key: Any, value: Any, timestamp: int) -> None:
        if value is None or (key is None and not left):
            return drop(node, "null_value" if value is None else "null_key")
        try:
            row = None
            if key is not None:
                row = find(key)[0]
                if row is None:
                    check(key)
            if row is None and not left:
                return drop(node, "no_row")
            joined = join(key, value, row) if takes_key else join(value, row)
        except Exception as error:
            return handle_error(node, error, key, timestamp)
        return forward(key, joined, timestamp)

    return from_stream, _ignore_table


def _ignore_table(_key: Any, _new: Any, _old: Any, _timestamp: int) -> None:
    """Do nothing: a change of the table has no effect until a record of the stream looks up the row."""
