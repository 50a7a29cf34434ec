"""Advance stream time for inputs that are idle.

Stream time follows the records. If a source with ``idle_after`` has had no record for that long, stream time follows
the wall clock at that distance. The tick is part of the batch, so running the batch again gives the same results.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from millstream.batch.batch import Progress
from millstream.plan.layout import Layout
from millstream.plan.sources import Source
from millstream.plan.stages import Stage
from millstream.plan.stateless import Repartition
from millstream.task.task_input import Range
from millstream.windows import FOREVER


class _WatchedTask(NamedTuple):
    """A task whose stream time may advance by itself, and the partitions that must be idle for ``idle_after``."""

    name: str
    partitions: tuple[tuple[Source, int], ...]
    idle_after: int

    def reads(self, topic: str, partition: int) -> bool:
        return any(source.reads(topic) and number == partition for source, number in self.partitions)


class IdleInputs:
    """Finds the tasks that are due for a tick; everything it needs to remember is in the progress of the app."""

    def __init__(self, layout: Layout) -> None:
        tasks = (
            _watched_task(layout, stage, partition)
            for number, stage in enumerate(layout.plan.stages)
            if stage.round == 0
            for partition in range(layout.partitions[number])
        )
        self._tasks = [task for task in tasks if task is not None]

    def __bool__(self) -> bool:
        return bool(self._tasks)

    def due(
        self, progress: Progress, backlog: Collection[Range], now: int, paused: Collection[str] = ()
    ) -> dict[str, int]:
        """Return the tasks whose stream time advances by itself now, each with the new stream time."""
        if not self._tasks:
            return {}
        busy = {(range_.topic, range_.partition) for range_ in backlog}
        return {
            task.name: now - task.idle_after
            for task in self._running(paused)
            if _due_at(task, progress) <= now and not any(task.reads(topic, partition) for topic, partition in busy)
        }

    def next_due(self, progress: Progress, paused: Collection[str] = ()) -> int:
        """Return the wall-clock time at which the next task is due if no records arrive."""
        return min((_due_at(task, progress) for task in self._running(paused)), default=FOREVER)

    def _running(self, paused: Collection[str]) -> list[_WatchedTask]:
        return [task for task in self._tasks if task.name not in paused] if paused else self._tasks


def _due_at(task: _WatchedTask, progress: Progress) -> int:
    seen = _seen(task, progress.seen)
    if not seen:
        return FOREVER  # before the first record there is no stream time to advance
    next_tick = progress.ticks[task.name] + 2 * task.idle_after if task.name in progress.ticks else 0
    return max(max(seen) + task.idle_after, next_tick)


def _seen(task: _WatchedTask, seen: Mapping[str, int]) -> list[int]:
    """Return when the partitions that a task watches last had records."""
    times = []
    for name, time in seen.items():
        topic, _, partition = name.rpartition("/")
        if task.reads(topic, int(partition)):
            times.append(time)
    return times


def _watched_task(layout: Layout, stage: Stage, partition: int) -> _WatchedTask | None:
    """Return a task with the partitions it watches: its own and, behind an edge, all those of the stages before it."""
    own = [node for node in stage.heads if isinstance(node, Source) and node.idle_after is not None]
    before = _sources_before(layout, stage)
    partitions = [(source, partition) for source in own]
    partitions += [(source, number) for source, count in before.items() for number in range(count)]
    idle_after = max((source.idle_after or 0 for source, _ in partitions), default=0)
    is_waiting = all(isinstance(head, Repartition) and head in layout.plan.waiting for head in stage.heads)
    if not partitions or is_waiting:
        return None
    return _WatchedTask(f"{stage.name}/{partition}", tuple(partitions), idle_after)


def _sources_before(layout: Layout, stage: Stage) -> dict[Source, int]:
    """Return the sources with ``idle_after`` of all stages before a stage, with their number of partitions."""
    writers = {edge: number for number, writer in enumerate(layout.plan.stages) for edge in writer.edges_out}
    sources: dict[Source, int] = {}
    visited: set[str] = {stage.name}
    pending = [stage]
    while pending:
        for head in pending.pop().heads:
            if not isinstance(head, Repartition):
                continue
            number = writers[head]
            writer = layout.plan.stages[number]
            if writer.name not in visited:
                visited.add(writer.name)
                pending.append(writer)
                idle = (node for node in writer.heads if isinstance(node, Source) and node.idle_after is not None)
                sources.update((source, layout.partitions[number]) for source in idle)
    return sources
