"""Let time go on for inputs that have fallen silent.

Stream time follows records. A source with ``idle_after`` lets it follow the wall clock, so much behind, once no record
has come for so long. The tick is part of the plan of a batch: to run it again gives the same.
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


class _Watched(NamedTuple):
    """A task whose time may go on: the partitions that must be silent for it, and for how long."""

    task: str
    places: tuple[tuple[Source, int], ...]
    silence: int


class IdleInputs:
    """Knows which tasks are due for a tick; all it remembers is in the progress of the app."""

    def __init__(self, layout: Layout) -> None:
        self._watched = [
            found
            for number, stage in enumerate(layout.plan.stages)
            if stage.round == 0
            for partition in range(layout.partitions[number])
            if (found := _watched(layout, stage, partition)) is not None
        ]

    def __bool__(self) -> bool:
        return bool(self._watched)

    def due(self, progress: Progress, backlog: Collection[Range], now: int) -> dict[str, int]:
        """Return the tasks whose time moves on by itself now, and to when."""
        if not self._watched:
            return {}
        busy = {(one.topic, one.partition) for one in backlog}
        return {
            one.task: now - one.silence
            for one in self._watched
            if self._due_at(one, progress) <= now and not _is_busy(one, busy)
        }

    def next_due(self, progress: Progress) -> int:
        """Return the wall time at which a task is due if all stays silent."""
        return min((self._due_at(one, progress) for one in self._watched), default=FOREVER)

    @staticmethod
    def _due_at(one: _Watched, progress: Progress) -> int:
        seen = [progress.seen[place] for place in _places(one, progress.seen)]
        if not seen:
            return FOREVER  # nothing has come at all: there is no time that could go on
        again = progress.ticks[one.task] + 2 * one.silence if one.task in progress.ticks else 0
        return max(max(seen) + one.silence, again)


def _places(one: _Watched, known: Mapping[str, int]) -> list[str]:
    """Return those of the known partitions that a task waits for."""
    found = []
    for place in known:
        topic, _, partition = place.rpartition("/")
        if any(source.reads(topic) and number == int(partition) for source, number in one.places):
            found.append(place)
    return found


def _is_busy(one: _Watched, busy: Collection[tuple[str, int]]) -> bool:
    return any(
        source.reads(topic) and number == partition for topic, partition in busy for source, number in one.places
    )


def _watched(layout: Layout, stage: Stage, partition: int) -> _Watched | None:
    """Return what a task waits for: its own partitions and, behind an edge, all partitions of the stages before it."""
    own = [node for node in stage.heads if isinstance(node, Source) and node.idle_after is not None]
    before = _sources_before(layout, stage)
    places = [(source, partition) for source in own]
    places += [(source, number) for source, count in before.items() for number in range(count)]
    silence = max((source.idle_after or 0 for source, _ in places), default=0)
    waits = all(isinstance(head, Repartition) and head in layout.plan.waiting for head in stage.heads)
    if not places or waits:
        return None
    return _Watched(f"{stage.name}/{partition}", tuple(places), silence)


def _sources_before(layout: Layout, stage: Stage) -> dict[Source, int]:
    """Return the sources with ``idle_after`` of all stages before one, with the number of their tasks."""
    writers = {edge: number for number, other in enumerate(layout.plan.stages) for edge in other.edges_out}
    found: dict[Source, int] = {}
    seen: set[str] = {stage.name}
    waiting = [stage]
    while waiting:
        for head in waiting.pop().heads:
            if not isinstance(head, Repartition):
                continue
            number = writers[head]
            writer = layout.plan.stages[number]
            if writer.name not in seen:
                seen.add(writer.name)
                waiting.append(writer)
                sources = (node for node in writer.heads if isinstance(node, Source) and node.idle_after is not None)
                found.update((source, layout.partitions[number]) for source in sources)
    return found
