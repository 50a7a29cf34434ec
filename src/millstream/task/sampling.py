"""Decide which batches are measured step by step: so few that the cost is negligible."""

from __future__ import annotations

import time
from collections.abc import Callable

from millstream.operators.probe import Probe
from millstream.task.task_input import TaskInput

_SMALL_RECORDS, _SMALL_BYTES = 5_000, 500_000
_SMALL_PAUSE, _LARGE_PAUSE = 1.0, 10.0
_PAUSE_FACTOR = 50
"""A measured batch needs up to twice its time: with a pause of fifty times as long the overhead is one percent.

No task of the process is measured in that pause: otherwise each of many tasks would add its own percent."""


class Sampling:
    """Gives a task's batch a probe at most once per second, or once per ten seconds if the batch is large.

    All tasks of a process share the time for measuring.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began = clock()
        self._measured: dict[int, float] = {}
        """When each task was measured last."""
        self._paused_until = self._began

    def probe(self, task_input: TaskInput) -> Probe | None:
        """Return a probe if it is time to measure this task again."""
        now = self._clock()
        if now < self._paused_until:
            return None
        pause = _SMALL_PAUSE if _is_small(task_input) else _LARGE_PAUSE
        return Probe() if now - self._measured.get(task_input.task, self._began) >= pause else None

    def note(self, task: int, seconds: float) -> None:
        """Record the duration of a measured batch."""
        now = self._measured[task] = self._clock()
        self._paused_until = now + seconds * _PAUSE_FACTOR


_samplings: dict[str, Sampling] = {}


def sampling_of(state_dir: str) -> Sampling:
    """Return the sampling of an app in this process, by its state directory; it outlives the jobs of a worker."""
    return _samplings.setdefault(state_dir, Sampling())


def _is_small(task_input: TaskInput) -> bool:
    records = sum(range_.stop - range_.start for range_ in task_input.ranges)
    size = sum(len(shuffle_input.data) for shuffle_input in task_input.shuffle_inputs)
    return records <= _SMALL_RECORDS and size <= _SMALL_BYTES
