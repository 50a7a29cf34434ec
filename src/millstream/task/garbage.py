"""Settings of the garbage collector during batches and between them."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

_THRESHOLD = 200_000
"""Number of new objects after which the collector runs during a batch."""
_FREEZING_CALLS = 4
_calls = count()


@contextmanager
def infrequent_collection() -> Iterator[None]:
    """Run the garbage collector less often.

    A batch allocates hundreds of thousands of rows and entries. They form no cycles and are freed together, so that
    scanning them repeatedly finds nothing and costs up to a third of the time. Cycles in user code are still found,
    only later. If another thread has raised the threshold already, nothing changes.
    """
    threshold, *older = gc.get_threshold()
    if threshold == 0 or threshold >= _THRESHOLD:
        yield
        return
    gc.set_threshold(_THRESHOLD, *older)
    try:
        yield
    finally:
        gc.set_threshold(threshold, *older)


def freeze_loaded_objects() -> None:
    """Exclude from garbage collection what a worker has loaded: modules, topologies, clients.

    Spark runs the garbage collector in a worker after each of its tasks. Scanning all modules lasts 35 ms each time,
    longer than many batches. The first calls freeze what later tasks use; later cycles are still found.
    """
    if next(_calls) < _FREEZING_CALLS:
        gc.freeze()
