"""The progress of restoring state from changelogs or from a checkpoint, as text."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection

import msgspec

from millstream.batch.activity import Activity
from millstream.task.changelog import CatchUp

_SMALLEST_PART = 0.01
"""Before that an estimate would be a guess."""
_VERB = "restoring"


def is_restore(activity: str) -> bool:
    """Whether an activity is that of a ``Restoring``."""
    return activity.startswith(f"{_VERB} ")


class Restoring:
    """Restores tasks one after the other, and reports how far it has come."""

    def __init__(self, activity: Activity | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._activity = activity
        self._clock = clock
        self._began = clock()
        self._task = ""
        self._source = "its changelog"
        self._tasks = 1
        self._done = 0
        self._rows = self._bytes = 0

    def start(self, tasks: int, source: str = "its changelog") -> None:
        """Begin with the first of that many tasks."""
        self._source = source
        self._began, self._tasks, self._done = self._clock(), max(1, tasks), 0

    def begin(self, task: str) -> None:
        """Begin with a task."""
        self._task = task
        self.update(CatchUp(0, 0, 0, 0, 1))

    def update(self, progress: CatchUp) -> None:
        """Report the progress of the current task."""
        if self._activity is not None:
            self._activity.set(self.text(progress))

    def end(self, progress: CatchUp) -> None:
        """Finish the current task."""
        self._done += 1
        self._rows += progress.rows
        self._bytes += progress.bytes

    def text(self, progress: CatchUp) -> str:
        """Return the progress of all tasks, with an estimate if there is one."""
        rows, size = self._rows + progress.rows, self._bytes + progress.bytes
        left = _seconds_left(self._clock() - self._began, (self._done + progress.part) / self._tasks)
        number = min(self._done + 1, self._tasks)
        return _text(f"{self._task} (task {number} of {self._tasks}) from {self._source}", rows, size, left)


class TaskRestore(msgspec.Struct, frozen=True):
    """How far one task is restored, and how long that has taken."""

    task: str
    host: str
    progress: CatchUp
    seconds: float


def parallel_restore(restores: Collection[TaskRestore]) -> str:
    """Return the progress of tasks that are restored at the same time, perhaps on several hosts."""
    names = [restore.task for restore in restores]
    hosts = sorted({restore.host for restore in restores})
    rows = sum(restore.progress.rows for restore in restores)
    size = sum(restore.progress.bytes for restore in restores)
    slowest = min(restores, key=lambda restore: restore.progress.part / restore.seconds)
    left = _seconds_left(slowest.seconds, slowest.progress.part)
    tasks = names[0] if len(names) == 1 else f"{len(names)} tasks"
    return _text(f"{tasks} on {', '.join(hosts)}", rows, size, left)


def _seconds_left(elapsed: float, part: float) -> float | None:
    return elapsed * (1 - part) / part if part > _SMALLEST_PART else None


def _text(what: str, rows: int, size: int, seconds_left: float | None) -> str:
    estimate = "" if seconds_left is None else f", about {seconds_left:,.0f} s left"
    return f"{_VERB} {what}: {rows:,} rows, {size / 1e6:,.1f} MB{estimate}"
