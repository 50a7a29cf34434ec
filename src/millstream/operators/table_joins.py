"""The work of joining two tables by key.

A change is joined with the other side as it is then. The result's timestamp is the later of both rows'.
"""

from __future__ import annotations

from typing import Any

from millstream.operators.aggregation import with_key
from millstream.operators.histories import newest_only, taking_versions
from millstream.operators.lookup import Lookup, lookup
from millstream.operators.runtime import Process, Runtime, operator
from millstream.operators.tables import store_of
from millstream.plan.tables import TableTableJoin


@operator.register(TableTableJoin)
def _join(node: TableTableJoin, forward: Process, runtime: Runtime) -> tuple[Process, Process]:
    joiner = with_key(node.joiner)
    out = _stored(node, forward, runtime) if node.stored else forward
    from_left = Side(node, runtime, lookup(node.right, runtime), out, joiner)
    from_right = Side(node, runtime, lookup(node.left, runtime), out, lambda key, mine, other: joiner(key, other, mine))
    left, right = {
        "inner": (from_left.needing_other, from_right.needing_other),
        "left": (from_left.keeping_own, from_right.serving),
        "outer": (from_left.keeping_all, from_right.keeping_all),
    }[node.kind]
    return (
        newest_only(node.left, left, runtime, node, counted=True),
        newest_only(node.right, right, runtime, node, counted=True),
    )


def _stored(node: TableTableJoin, forward: Process, runtime: Runtime) -> Process:
    if node.history is not None:
        return taking_versions(node, forward, runtime)
    store = store_of(node, runtime)

    def put(key: Any, new: Any, old: Any, timestamp: int) -> None:
        row = store.row(key)
        row.value, row.timestamp = new, timestamp
        store.mark(row)
        forward(key, new, old, timestamp)

    return put


class Side:
    """One side of a join, with one way to process its changes for each role that it can have."""

    def __init__(self, node: TableTableJoin, runtime: Runtime, other: Lookup, forward: Process, join: Any) -> None:
        self._node = node
        self._other = other
        self._forward = forward
        self._join = join
        self._old = node in runtime.plan.sending_old
        self._dropped, self._failed = runtime.dropped, runtime.failed

    def needing_other(self, key: Any, new: Any, old: Any, timestamp: int) -> None:
        """Inner: nothing without a row on the other side."""
        self._process(key, new, old, timestamp, needs_other=True)

    def keeping_own(self, key: Any, new: Any, old: Any, timestamp: int) -> None:
        """The left side of a left join: its rows are there in any case."""
        self._process(key, new, old, timestamp)

    def serving(self, key: Any, new: Any, old: Any, timestamp: int) -> None:
        """The right side of a left join: it only serves rows that the left side has."""
        self._process(key, new, old, timestamp, needs_other=True, joins_missing=True)

    def keeping_all(self, key: Any, new: Any, old: Any, timestamp: int) -> None:
        """Either side of an outer join."""
        self._process(key, new, old, timestamp, joins_missing=True)

    def _process(
        self, key: Any, new: Any, old: Any, timestamp: int, *, needs_other: bool = False, joins_missing: bool = False
    ) -> None:
        try:
            other, other_timestamp = self._other(key)
            if other is None and (needs_other or (new is None and old is None)):
                return None
            missing_counts = joins_missing and other is not None
            joined = self._join(key, new, other) if new is not None or missing_counts else None
            before = None
            if self._old and (old is not None or missing_counts):
                before = self._join(key, old, other)
        except Exception as error:
            return self._failed(self._node, error, key)
        return self._forward(key, joined, before, max(timestamp, other_timestamp))
