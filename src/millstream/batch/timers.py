"""Find the tasks with a due wall-clock timer, for which a batch runs even without records."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec

from millstream.batch.batch import Progress
from millstream.plan.layout import Layout
from millstream.plan.processors import PROCESSORS, Process, ProcessValues, TransformValues
from millstream.plan.stages import Stage
from millstream.task.task_input import TaskInput
from millstream.windows import FOREVER

TimedTasks = Mapping[str, frozenset[str]]
"""The tasks that have processors, each with those of its steps that have to start before the first record."""


def timed_tasks(layout: Layout) -> TimedTasks:
    """Return the tasks of a layout that may have timers."""
    tasks: dict[str, frozenset[str]] = {}
    for stage, partition in layout.tasks:
        steps = _processors(layout.plan.stages[stage])
        if steps:
            name = f"{layout.plan.stages[stage].name}/{partition}"
            tasks[name] = frozenset(node.name or "" for node in steps if node.starts)
    return tasks


def due_tasks(tasks: TimedTasks, progress: Progress, now: int, paused: Collection[str] = ()) -> tuple[str, ...]:
    """Return the names of the tasks that have to run now."""
    due = (name for name, starts in tasks.items() if _due(starts, progress.timers.get(name, {})) <= now)
    return tuple(name for name in due if name not in paused)


def next_due(tasks: TimedTasks, progress: Progress, paused: Collection[str] = ()) -> int:
    """Return the wall-clock time at which the next timer is due."""
    running = ((name, starts) for name, starts in tasks.items() if name not in paused)
    return min((_due(starts, progress.timers.get(name, {})) for name, starts in running), default=FOREVER)


def _due(starts: frozenset[str], timers: dict[str, int]) -> int:
    return 0 if starts - timers.keys() else min(timers.values(), default=FOREVER)


class SharedTime:
    """One stream time for all tasks, as in the test driver of Kafka Streams, where a topology is a single task.

    On a cluster each stage has its own stream time, in Kafka Streams as in Millstream.
    """

    def __init__(self, layout: Layout) -> None:
        stages = layout.plan.stages
        timed = (task for task, (stage, _) in enumerate(layout.tasks) if _processors(stages[stage]))
        self._times = dict.fromkeys(timed, -1)
        """The stream time with which each task that has timers ran last; each round of a task counts by itself."""
        self._time = -1

    def applied_to(self, task_input: TaskInput) -> TaskInput:
        """Give a task with timers the shared time, and a reason to run if its own is behind."""
        task = task_input.task
        if task not in self._times:
            return task_input
        is_behind = self._times[task] < self._time
        self._times[task] = self._time
        return msgspec.structs.replace(task_input, stream_time=self._time, has_timer=task_input.has_timer or is_behind)

    def observe(self, task: int, stream_time: int) -> None:
        """Advance the shared time to that of a task that has run."""
        self._time = max(self._time, stream_time)
        if task in self._times:
            self._times[task] = max(self._times[task], stream_time)

    @property
    def is_known(self) -> bool:
        """Whether all tasks with timers have the shared time."""
        return all(time == self._time for time in self._times.values())


def _processors(stage: Stage) -> list[Process | ProcessValues | TransformValues]:
    return [node for node in stage.nodes if isinstance(node, PROCESSORS)]
