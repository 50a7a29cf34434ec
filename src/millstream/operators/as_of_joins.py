"""Join a stream with a table that keeps its history: a record is joined with the row that was valid at its timestamp.

With a grace period the record waits in a buffer until the buffer's time has advanced that far, so that late table
updates can arrive. Only records that enter the buffer advance its time, not dropped records or table updates.
"""

from __future__ import annotations

from typing import Any

from millstream.foundation.object_codec import value_codec
from millstream.operators.aggregation import with_key
from millstream.operators.histories import lookup_as_of
from millstream.operators.missing import key_type_check
from millstream.operators.runtime import Process, Runtime
from millstream.plan.stateful import StreamTableJoin


def join_as_of(node: StreamTableJoin, forward: Process, runtime: Runtime) -> Process:
    """Return what the join does with a record of the stream."""
    join = _join(node, forward, runtime)
    ready = join if node.grace is None else _after_grace(node, node.grace, join, runtime)
    left, drop = node.left, runtime.drop

    def from_stream(key: Any, value: Any, timestamp: int) -> None:
        if value is None or (key is None and not left):
            return drop(node, "null_value" if value is None else "null_key")
        return (join if key is None else ready)(key, value, timestamp)

    return from_stream


def _join(node: StreamTableJoin, forward: Process, runtime: Runtime) -> Process:
    find, joiner, left = lookup_as_of(node.table, runtime), with_key(node.joiner), node.left
    handle_error, check = runtime.handle_error, key_type_check(node.table, runtime)

    def join(key: Any, value: Any, timestamp: int) -> None:
        try:
            row = None
            if key is not None:
                row = find(key, timestamp)[0]
                if row is None:
                    check(key)
            if row is None and not left:
                return runtime.drop(node, "no_row")
            joined = joiner(key, value, row)
        except Exception as error:
            return handle_error(node, error, key, timestamp)
        return forward(key, joined, timestamp)

    return join


def _after_grace(node: StreamTableJoin, grace: int, join: Process, runtime: Runtime) -> Process:
    buffer = runtime.buffer(node, value_codec(runtime.plan.declared[node.stream].value))
    context = runtime.context

    def process(key: Any, value: Any, timestamp: int) -> None:
        if timestamp < buffer.observed - grace:
            return join(key, value, timestamp)
        buffer.put(key, value, timestamp, context.headers if context.has_headers else ())
        return release()

    def release() -> None:
        for key, value, timestamp, headers in buffer.take_until(buffer.observed - grace):
            saved = context.override_headers(headers)
            try:
                join(key, value, timestamp)
            finally:
                context.restore_headers(saved)

    def advance_time(time: int) -> None:
        buffer.observed = max(buffer.observed, time)
        release()

    runtime.on_time_advance(node, advance_time)
    return process
