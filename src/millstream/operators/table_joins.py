"""Join two tables by key.

A change is joined with the current row of the other side. The result has the later timestamp of both rows.
"""

from __future__ import annotations

from typing import Any

from millstream.functions import Function
from millstream.operators.emitting import store_of
from millstream.operators.histories import newest_only, version_writer
from millstream.operators.lookup import Lookup, lookup
from millstream.operators.runtime import Process, Runtime, Step, operator
from millstream.plan.tables import TableTableJoin


@operator.register(TableTableJoin)
def _join(node: TableTableJoin, forward: Process, runtime: Runtime) -> tuple[Process, Process]:
    out = _stored(node, forward, runtime) if node.stored else forward
    left_join, right_join = _both_ways(node.joiner)
    left_role, right_role = _ROLES[node.kind]
    left = _side(node, runtime, lookup(node.right, runtime), out, left_join, **left_role)
    right = _side(node, runtime, lookup(node.left, runtime), out, right_join, **right_role)
    return (
        newest_only(node.left, left, runtime, node, counted=True),
        newest_only(node.right, right, runtime, node, counted=True),
    )


_ROLES: dict[str, tuple[dict[str, bool], dict[str, bool]]] = {
    "inner": ({"needs_other": True}, {"needs_other": True}),
    "left": ({}, {"needs_other": True, "joins_missing": True}),
    "outer": ({"joins_missing": True}, {"joins_missing": True}),
}
"""The roles of the two sides: with ``needs_other`` a side emits nothing without a row on the other side, and with
``joins_missing`` it still joins the row of the other side when its own row is deleted."""


def _both_ways(joiner: Function) -> tuple[Step, Step]:
    """Return the joiner as functions of (key, own row, other row), for the left and the right side."""
    call = joiner.call
    if joiner.arity == 3:
        return call, lambda key, mine, other: call(key, other, mine)
    return lambda _key, mine, other: call(mine, other), lambda _key, mine, other: call(other, mine)


def _stored(node: TableTableJoin, forward: Process, runtime: Runtime) -> Process:
    if node.history is not None:
        return version_writer(node, forward, runtime)
    store = store_of(node, runtime)

    def put(key: Any, new: Any, old: Any, timestamp: int) -> None:
        row = store.row(key)
        row.value, row.timestamp = new, timestamp
        store.mark(row)
        forward(key, new, old, timestamp)

    return put


def _side(
    node: TableTableJoin,
    runtime: Runtime,
    look: Lookup,
    forward: Process,
    join: Step,
    *,
    needs_other: bool = False,
    joins_missing: bool = False,
) -> Process:
    """Return what a change on one side does; ``look`` looks up rows of the other side."""
    sends_old, handle_error = node in runtime.plan.sending_old, runtime.handle_error

    def process(key: Any, new: Any, old: Any, timestamp: int) -> None:
        try:
            other, other_timestamp = look(key)
            if other is None and (needs_other or (new is None and old is None)):
                return None
            keeps_other = joins_missing and other is not None
            joined = join(key, new, other) if new is not None or keeps_other else None
            before = None
            if sends_old and (old is not None or keeps_other):
                before = join(key, old, other)
        except Exception as error:
            return handle_error(node, error, key, timestamp)
        return forward(key, joined, before, max(timestamp, other_timestamp))

    return process
