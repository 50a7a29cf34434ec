"""What aggregations share: how functions that combine values are called, and how stored aggregates become results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from millstream.aggregations import Aggregation, Several, finisher, is_stable
from millstream.foundation.object_codec import value_codec
from millstream.functions import Function
from millstream.operators.columns import ChangeCollector, ColumnBatch, ProcessColumns
from millstream.operators.runtime import Process, Runtime
from millstream.operators.several import adder_of, compiled_adder, compiled_counter, compiled_finisher
from millstream.plan.stateful import Aggregate, Count, Reduce, WindowedAggregate
from millstream.plan.tables import TableAggregate
from millstream.state.segments import position_layout
from millstream.state.timed import TimedStore
from millstream.windows import TimeWindows, UnlimitedWindows

AnyAggregate: TypeAlias = Count | Reduce | Aggregate | WindowedAggregate | TableAggregate

Step: TypeAlias = Callable[[Any, Any, Any], Any]
"""(key, old value or None, value) → new value, None to delete the row."""


def with_key(function: Function, *, in_place: bool = False) -> Step:
    """Return a function of (key, old, value), whether ``function`` takes the key or not.

    With ``in_place``, it may change the old value if it is the state of a built-in aggregation.
    """
    call = function.call
    owner = getattr(call, "__self__", None)
    if isinstance(owner, Several) and call.__name__ == "count":
        return compiled_counter(owner)
    if isinstance(owner, Several) and call.__name__ == "add":
        call = compiled_adder(owner, in_place=in_place)
    elif isinstance(owner, Aggregation) and call.__name__ == "add":
        call = adder_of(owner, in_place=in_place)
    return call if function.arity == 3 else lambda _key, old, value: call(old, value)


def collector_of(
    node: AnyAggregate, forward_columns: ProcessColumns, forward: Process, runtime: Runtime
) -> ChangeCollector:
    """Return what collects stored aggregates and forwards them as users see them."""
    columns, single = finishing_columns(node, forward_columns), finishing(node, forward, runtime)
    ready = None if isinstance(node, Count | Reduce) else node.ready
    return ChangeCollector(runtime.context, columns, single, is_stable=ready is not None and is_stable(ready))


def finishing(node: AnyAggregate, forward: Process, runtime: Runtime) -> Process:
    """Return what forwards updates as users see them: for a built-in aggregation the result, not the stored state."""
    if isinstance(node, Count | Reduce) or node.ready is None:
        return forward
    finish, sends_old = finisher(node.ready, node.build), node in runtime.plan.sending_old

    def forward_finished(key: Any, new: Any, old: Any, timestamp: int) -> None:
        forward(key, finish(new), finish(old) if sends_old else None, timestamp)

    return forward_finished


def finishing_columns(node: AnyAggregate, forward: ProcessColumns) -> ProcessColumns:
    """Return what forwards column batches of updates as users see them; see ``finishing``."""
    if isinstance(node, Count | Reduce) or node.ready is None:
        return forward
    ready, build = node.ready, node.build
    finish = compiled_finisher(ready) if build is None and isinstance(ready, Several) else None
    with_deleted = finisher(ready, build)

    def forward_finished(batch: ColumnBatch) -> None:
        function = with_deleted if finish is None or None in batch.values else finish
        forward(batch.with_values(list(map(function, batch.values))))

    return forward_finished


def store_of_windows(node: WindowedAggregate, runtime: Runtime) -> TimedStore:
    """Return the store of a windowed table."""
    exact = isinstance(node.windows, TimeWindows | UnlimitedWindows)
    codec = value_codec(runtime.plan.declared[node].value)
    layout, final = position_layout(node.windows), node.final
    return runtime.timed_store(node, codec, layout, node.kept_for, indexed=final, exact=exact, skip_expired=not final)
