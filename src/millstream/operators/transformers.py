"""The work of table transformers: rows whose value user code computes, with the help of stores."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from millstream.operators.emitting import store_of
from millstream.operators.histories import LookupAsOf, as_of, lookup_as_of
from millstream.operators.lookup import Lookup, computed, lookup
from millstream.operators.processors import Children, StepContext, begun, started
from millstream.operators.runtime import Process, Runtime, operator
from millstream.plan.processors import TransformValues

_NO_CHILDREN = Children(lambda *_record: None, {})


@operator.register(TransformValues)
def _transform_values(node: TransformValues, forward: Process, runtime: Runtime) -> Process:
    """New values come first, then old ones if somebody behind needs them and they are not stored."""
    context = StepContext(node, _NO_CHILDREN, runtime)
    transform = started(node, context, runtime).transform  # type: ignore[attr-defined]
    knows_old, failed = node in runtime.plan.sending_old, runtime.failed
    store = store_of(node, runtime) if node.stored else None

    def process(key: Any, new: Any, old: Any, timestamp: int) -> None:
        try:
            new = transform(key, new)
            if store is None and knows_old:
                old = transform(key, old)
        except Exception as error:
            if context.trouble is None:
                return failed(node, error, key)
        if context.trouble is not None:
            raise context.trouble
        if store is not None:
            row = store.row(key)
            old, row.value, row.timestamp = row.value, new, timestamp
            store.mark(row)
        return forward(key, new, old, timestamp)

    return process


@computed.register(TransformValues)
def _lookup(node: TransformValues, runtime: Runtime) -> Lookup:
    """Whoever looks up a row that is not stored has it computed, also for a row that is not there."""
    source, transform = lookup(node.source, runtime), _transform(node, runtime)

    def look(key: Any) -> tuple[Any, int]:
        value, timestamp = source(key)
        return transform(key, value), timestamp

    return look


@as_of.register(TransformValues)
def _lookup_as_of(node: TransformValues, runtime: Runtime) -> LookupAsOf:
    source, transform = lookup_as_of(node.source, runtime), _transform(node, runtime)

    def look(key: Any, time: int) -> tuple[Any, int]:
        value, timestamp = source(key, time)
        return transform(key, value), timestamp

    return look


def _transform(node: TransformValues, runtime: Runtime) -> Callable[[Any, Any], Any]:
    """Return an object's function for look-ups only; it has no stores, so nobody sees that there are two objects."""
    transform: Callable[[Any, Any], Any]
    transform = begun(node, StepContext(node, _NO_CHILDREN, runtime)).transform  # type: ignore[attr-defined]
    return transform
