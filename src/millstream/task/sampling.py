"""Decide which batches are measured step by step: so few that the cost is negligible."""

from __future__ import annotations

import time
from collections.abc import Callable

from millstream.operators.probe import Probe
from millstream.task.task_input import TaskInput

_SMALL_RECORDS, _SMALL_BYTES = 5_000, 500_000
_SMALL_PAUSE, _LARGE_PAUSE = 1.0, 10.0
_PAUSE_FACTOR = 50
"""A measured batch needs up to twice its time: with a pause of fifty times as long the overhead is one percent."""


class Sampling:
    """Gives a task's batch a probe at most once per second, or once per ten seconds if the batch is large."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began = clock()
        self._measured: dict[int, tuple[float, float]] = {}

    def probe(self, task_input: TaskInput) -> Probe | None:
        """Return a probe if it is time to measure this task again."""
        ended, pause = self._measured.get(task_input.task, (self._began, 0.0))
        pause = max(pause, _SMALL_PAUSE if _is_small(task_input) else _LARGE_PAUSE)
        return Probe() if self._clock() - ended >= pause else None

    def note(self, task: int, seconds: float) -> None:
        """Record the duration of a measured batch."""
        self._measured[task] = self._clock(), seconds * _PAUSE_FACTOR


_samplings: dict[str, Sampling] = {}


def sampling_of(state_dir: str) -> Sampling:
    """Return the sampling of an app in this process, by its state directory; it outlives the jobs of a worker."""
    return _samplings.setdefault(state_dir, Sampling())


def _is_small(task_input: TaskInput) -> bool:
    records = sum(range_.stop - range_.start for range_ in task_input.ranges)
    size = sum(len(shuffle_input.data) for shuffle_input in task_input.shuffle_inputs)
    return records <= _SMALL_RECORDS and size <= _SMALL_BYTES
