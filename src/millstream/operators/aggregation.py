"""How functions that combine values are called, and what ready aggregations show of what they keep."""

from __future__ import annotations

from typing import Any, TypeAlias

from millstream.aggregations import finisher
from millstream.foundation.object_codec import value_codec
from millstream.functions import Function
from millstream.operators.columns import ProcessRun
from millstream.operators.runtime import Process, Runtime, Step
from millstream.plan.stateful import Aggregate, Count, Reduce, WindowedAggregate
from millstream.plan.tables import TableAggregate
from millstream.state.segments import layout_of
from millstream.state.timed import TimedStore
from millstream.windows import TimeWindows, UnlimitedWindows

AnyAggregate: TypeAlias = Count | Reduce | Aggregate | WindowedAggregate | TableAggregate


def with_key(function: Function) -> Step:
    """Return a function of (key, old, value), whether it wants the key or not."""
    call = function.call
    return call if function.arity == 3 else lambda _key, old, value: call(old, value)


def showing(node: AnyAggregate, forward: Process, runtime: Runtime) -> Process:
    """Return what passes updates on as users see them: of a ready aggregation the result, not what is kept for it."""
    if isinstance(node, Count | Reduce) or node.ready is None:
        return forward
    finish, tells_old = finisher(node.ready, node.build), node in runtime.plan.sending_old

    def show(key: Any, new: Any, old: Any, timestamp: int) -> None:
        forward(key, finish(new), finish(old) if tells_old else None, timestamp)

    return show


def showing_runs(node: AnyAggregate, forward: ProcessRun) -> ProcessRun:
    """Return what passes runs of last updates on as users see them."""
    if isinstance(node, Count | Reduce) or node.ready is None:
        return forward
    finish = finisher(node.ready, node.build)
    return lambda run: forward(run.with_values(list(map(finish, run.values))))


def store_of_windows(node: WindowedAggregate, runtime: Runtime) -> TimedStore:
    """Return the store of a windowed table."""
    exact = isinstance(node.windows, TimeWindows | UnlimitedWindows)
    codec = value_codec(runtime.plan.declared[node].value)
    layout, final = layout_of(node.windows), node.final
    return runtime.timed_store(node, codec, layout, node.kept_for, indexed=final, exact=exact, only_in_reach=not final)
