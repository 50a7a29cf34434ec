"""Which batches are measured step by step: few enough that it cannot be felt."""

from __future__ import annotations

import time
from collections.abc import Callable

from millstream.operators.probe import Probe
from millstream.task.work import Work

_SMALL_RECORDS, _SMALL_BYTES = 5_000, 500_000
_SMALL_REST, _LARGE_REST = 1.0, 10.0
_REST_FACTOR = 50
"""A measured batch takes up to twice as long: after a rest of fifty times its time this is a hundredth."""


class Sampling:
    """Gives some batches of each task a probe: after a second of rest, after ten if the batch is large."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began = clock()
        self._measured: dict[int, tuple[float, float]] = {}

    def probe(self, work: Work) -> Probe | None:
        """Return a probe if it is time to measure this task again."""
        ended, rest = self._measured.get(work.task, (self._began, 0.0))
        rest = max(rest, _SMALL_REST if _is_small(work) else _LARGE_REST)
        return Probe() if self._clock() - ended >= rest else None

    def note(self, task: int, seconds: float) -> None:
        """Take note of how long a measured batch took."""
        self._measured[task] = self._clock(), seconds * _REST_FACTOR


def _is_small(work: Work) -> bool:
    records = sum(one.stop - one.start for one in work.ranges)
    return records <= _SMALL_RECORDS and sum(len(one.data) for one in work.arrivals) <= _SMALL_BYTES
