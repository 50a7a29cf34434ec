"""The garbage collector while a batch runs, and between batches."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

_YOUNG = 200_000
"""How many new objects the collector lets be before it looks through them."""
_LOADING_CALLS = 4
_calls = count()


@contextmanager
def seldom_collected() -> Iterator[None]:
    """Have the collector look for cycles less often.

    A batch allocates rows and entries by the hundred thousand. They form no cycles and are let go together, so that
    looking through them again and again finds nothing and costs up to a third of the time. Cycles that user code
    makes are still found, only later. Where another thread has done so already, nothing is changed.
    """
    found, *older = gc.get_threshold()
    if found == 0 or found >= _YOUNG:
        yield
        return
    gc.set_threshold(_YOUNG, *older)
    try:
        yield
    finally:
        gc.set_threshold(found, *older)


def set_apart_what_stays() -> None:
    """Have the collector pass over what a worker has loaded: modules, topologies, clients.

    Spark has a worker look for cycles after each of its tasks. Going through all modules takes 35 ms each time, more
    than many a batch. The first tasks load what the later ones use; cycles that come later are found as ever.
    """
    if next(_calls) < _LOADING_CALLS:
        gc.freeze()
