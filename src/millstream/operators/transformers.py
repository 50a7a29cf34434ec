"""Table transformers: user code computes the value of each row, and may use stores."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from millstream.operators.emitting import store_of
from millstream.operators.histories import LookupAsOf, as_of, lookup_as_of
from millstream.operators.lookup import Lookup, computed, lookup
from millstream.operators.processors import Children, StepContext, create_step, start_step
from millstream.operators.runtime import Process, Runtime, operator
from millstream.plan.processors import TransformValues

_NO_CHILDREN = Children(lambda *_record: None, {})


@operator.register(TransformValues)
def _transform_values(node: TransformValues, forward: Process, runtime: Runtime) -> Process:
    """Transform the new value, then the old one if a step downstream needs it and it is not stored."""
    context = StepContext(node, _NO_CHILDREN, runtime)
    transform = start_step(node, context, runtime).transform  # type: ignore[attr-defined]
    has_old, handle_error = node in runtime.plan.sending_old, runtime.handle_error
    store = store_of(node, runtime) if node.stored else None

    def process(key: Any, new: Any, old: Any, timestamp: int) -> None:
        try:
            new = transform(key, new)
            if store is None and has_old:
                old = transform(key, old)
        except Exception as error:
            if context.engine_error is None:
                return handle_error(node, error, key, timestamp)
        if context.engine_error is not None:
            raise context.engine_error
        if store is not None:
            row = store.row(key)
            old, row.value, row.timestamp = row.value, new, timestamp
            store.mark(row)
        return forward(key, new, old, timestamp)

    return process


@computed.register(TransformValues)
def _lookup(node: TransformValues, runtime: Runtime) -> Lookup:
    """Compute the value of a row on lookup, also for a row that does not exist."""
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
    """Return the function of a separate object for lookups; it has no stores, so the two objects cannot differ."""
    transform: Callable[[Any, Any], Any]
    transform = create_step(node, StepContext(node, _NO_CHILDREN, runtime)).transform  # type: ignore[attr-defined]
    return transform
