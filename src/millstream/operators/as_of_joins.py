"""The work of joining a stream with a table that keeps its history: the row is the one valid at the record's time.

With a grace the record waits in a buffer until the stream has gone on so far that late table updates have arrived. Its
time is that of the records put there: dropped records and table updates do not move it.
"""

from __future__ import annotations

from typing import Any

from millstream.foundation.object_codec import value_codec
from millstream.operators.aggregation import with_key
from millstream.operators.histories import lookup_as_of
from millstream.operators.missing import asking
from millstream.operators.runtime import Process, Runtime
from millstream.plan.stateful import StreamTableJoin


def join_as_of(node: StreamTableJoin, forward: Process, runtime: Runtime) -> Process:
    """Return what a join does with a record of the stream."""
    join = _joining(node, forward, runtime)
    ready = join if node.grace is None else _after_grace(node, node.grace, join, runtime)
    left, dropped = node.left, runtime.dropped

    def from_stream(key: Any, value: Any, timestamp: int) -> None:
        if value is None or (key is None and not left):
            return dropped(node, "null_value" if value is None else "null_key")
        return (join if key is None else ready)(key, value, timestamp)

    return from_stream


def _joining(node: StreamTableJoin, forward: Process, runtime: Runtime) -> Process:
    find, joiner, left = lookup_as_of(node.table, runtime), with_key(node.joiner), node.left
    failed, check = runtime.failed, asking(node.table, runtime)

    def join(key: Any, value: Any, timestamp: int) -> None:
        try:
            row = None
            if key is not None:
                row = find(key, timestamp)[0]
                if row is None:
                    check(key)
            if row is None and not left:
                return None
            joined = joiner(key, value, row)
        except Exception as error:
            return failed(node, error, key)
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
        for waiting_key, waiting, at, headers in buffer.take_until(buffer.observed - grace):
            own = context.carry(headers)
            try:
                join(waiting_key, waiting, at)
            finally:
                context.restore(own)

    def move_on(time: int) -> None:
        buffer.observed = max(buffer.observed, time)
        release()

    runtime.on_time(node, move_on)
    return process
