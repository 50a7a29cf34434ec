"""How functions that combine values are called, and what ready aggregations show of what they keep."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from millstream.aggregations import finisher
from millstream.functions import Function
from millstream.operators.runtime import Process, Runtime
from millstream.plan.stateful import Aggregate, WindowedAggregate
from millstream.plan.tables import TableAggregate

Step: TypeAlias = Callable[[Any, Any, Any], Any]
"""(key, old value or None, value) → new value, None to delete the row."""


def with_key(function: Function) -> Step:
    """Return a function of (key, old, value), whether it wants the key or not."""
    call = function.call
    return call if function.arity == 3 else lambda _key, old, value: call(old, value)


def showing(node: Aggregate | WindowedAggregate | TableAggregate, forward: Process, runtime: Runtime) -> Process:
    """Return what passes updates on as users see them: of a ready aggregation the result, not what is kept for it."""
    if node.ready is None:
        return forward
    finish, tells_old = finisher(node.ready, node.build), node in runtime.plan.sending_old

    def show(key: Any, new: Any, old: Any, timestamp: int) -> None:
        forward(key, finish(new), finish(old) if tells_old else None, timestamp)

    return show
