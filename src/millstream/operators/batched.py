"""Steps that hand the records of a batch to a function together: ``map_async`` and ``map_batches``.

Records are held back until the batch has been read. Their results are forwarded in the order of the records, each as
if its record were the current one. A batch commits as a whole, so an earlier result would not be visible earlier.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from millstream.operators.async_calls import AsyncCalls
from millstream.operators.failure import Failure
from millstream.operators.frames import FrameCalls
from millstream.operators.runtime import Process, Runtime, operator
from millstream.plan.batched import MapAsync, MapBatches

Compute: TypeAlias = Callable[[list[Any], list[Any]], list[Any]]
"""(keys, values) → for each of them a result or a ``Failure``."""


class _Held(NamedTuple):
    bookmark: Any
    key: Any
    value: Any
    timestamp: int


@operator.register(MapAsync)
def _map_async(node: MapAsync, forward: Process, runtime: Runtime) -> Process:
    return _hold(node, AsyncCalls.of(node), forward, runtime)


@operator.register(MapBatches)
def _map_batches(node: MapBatches, forward: Process, runtime: Runtime) -> Process:
    return _hold(node, FrameCalls.of(node), forward, runtime)


def _hold(node: MapAsync | MapBatches, compute: Compute, forward: Process, runtime: Runtime) -> Process:
    """Return what holds records back, and forward their results when the batch has been read."""
    context, held = runtime.context, list[_Held]()

    def flush() -> None:
        records = held.copy()
        held.clear()
        end = context.bookmark()
        results = compute([record.key for record in records], [record.value for record in records]) if records else ()
        for (bookmark, key, _, timestamp), result in zip(records, results, strict=True):
            context.return_to(bookmark)
            if isinstance(result, Failure):
                runtime.handle_error(node, result.error, key, timestamp)
            else:
                forward(key, result, timestamp)
        context.return_to(end)

    def process(key: Any, value: Any, timestamp: int) -> None:
        held.append(_Held(context.bookmark(), key, value, timestamp))

    runtime.on_flush(node, flush)
    return process
