"""The work of joining a stream with a global table: any row can be looked up, and each record says which."""

from __future__ import annotations

from typing import Any

from millstream.operators.aggregation import with_key
from millstream.operators.missing import asking
from millstream.operators.runtime import Process, Runtime, operator
from millstream.plan.joins import StreamGlobalJoin


@operator.register(StreamGlobalJoin)
def _join(node: StreamGlobalJoin, forward: Process, runtime: Runtime) -> Process:
    find, joiner, left = runtime.global_table(node.topic).row, with_key(node.joiner), node.left
    key_of = None if node.key_of is None else node.key_of.bind(runtime.context)
    dropped, failed = runtime.dropped, runtime.failed
    check = asking(runtime.plan.global_tables[node.topic], runtime)

    def process(key: Any, value: Any, timestamp: int) -> None:
        if value is None:
            return dropped(node, "null_value")
        try:
            wanted = key if key_of is None else key_of(key, value)
            if wanted is None and not left:
                return dropped(node, "null_key")
            row = None
            if wanted is not None:
                row = find(wanted).value
                if row is None:
                    check(wanted)
            if row is None and not left:
                return None
            joined = joiner(key, value, row)
        except Exception as error:
            return failed(node, error, key)
        return forward(key, joined, timestamp)

    return process
