"""Join a stream with a global table: each record can be joined with any row of the table."""

from __future__ import annotations

from typing import Any

from millstream.operators.aggregation import with_key
from millstream.operators.missing import key_type_check
from millstream.operators.runtime import Process, Runtime, operator
from millstream.plan.joins import StreamGlobalJoin


@operator.register(StreamGlobalJoin)
def _join(node: StreamGlobalJoin, forward: Process, runtime: Runtime) -> Process:
    find, joiner, left = runtime.global_table(node.topic).row, with_key(node.joiner), node.left
    key_of = None if node.key_of is None else node.key_of.bind(runtime.context)
    drop, handle_error = runtime.drop, runtime.handle_error
    check = key_type_check(runtime.plan.global_tables[node.topic], runtime)

    def process(key: Any, value: Any, timestamp: int) -> None:
        if value is None:
            return drop(node, "null_value")
        try:
            row_key = key if key_of is None else key_of(key, value)
            if row_key is None and not left:
                return drop(node, "null_key")
            row = None
            if row_key is not None:
                row = find(row_key).value
                if row is None:
                    check(row_key)
            if row is None and not left:
                return drop(node, "no_row")
            joined = joiner(key, value, row)
        except Exception as error:
            return handle_error(node, error, key, timestamp)
        return forward(key, joined, timestamp)

    return process
