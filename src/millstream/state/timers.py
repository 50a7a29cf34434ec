"""Timers: which methods of processors are to be called when. They are state, since they outlive a batch."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection
from operator import attrgetter
from typing import TypeAlias

import msgspec

from millstream.processors import Clock, Punctuation
from millstream.windows import FOREVER

Fire: TypeAlias = Callable[[str, int], None]
"""Calls the method of that name with the time."""


class Schedule(msgspec.Struct, array_like=True):
    """A method that is called again and again; ``due`` is when it is called next.

    A cancelled one is remembered if the class declares it, lest the next batch begins it anew.
    """

    node: str
    name: str
    method: str
    every: int
    on: Clock
    start: int | None
    due: int
    declared: bool = False
    cancelled: bool = False
    turn: int = 0
    """Which comes first of those that are due at the same time, when a batch begins."""

    def follows(self, wanted: Punctuation) -> bool:
        """Whether it is what was asked for."""
        return (self.method, self.every, self.on, self.start) == (wanted.method, wanted.every, wanted.on, wanted.start)

    def move_on(self, now: int) -> None:
        """Go to the next time on the grid after ``now``; what was missed is left out."""
        self.due += self.every * max(1, (now - self.due) // self.every + 1)


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[Schedule]).decode


class Timers:
    """The timers of a task; ``stream_due`` and ``wall_due`` say when the next ones have to be called."""

    def __init__(self, stored: bytes | None, wall_time: int, nodes: Collection[str] = ()) -> None:
        """Keep the timers of all ``nodes``, also of those that are attached in another round of the batch."""
        self._nodes = frozenset(nodes)
        self._schedules = {(one.node, one.name): one for one in ([] if stored is None else _decode(stored))}
        self._before = stored
        self.wall_time = wall_time
        """From when on what is scheduled on the wall clock counts."""
        self._fires: dict[str, Fire] = {}
        self._queues: dict[Clock, list[tuple[int, int, Schedule]]] = {"stream": [], "wall": []}
        self._number = 0
        self.stream_due = FOREVER
        self.wall_due = FOREVER
        for schedule in sorted(self._schedules.values(), key=attrgetter("turn")):
            self._enqueue(schedule)

    @property
    def in_use(self) -> bool:
        return bool(self._fires)

    def attach(self, node: str, fire: Fire, declared: tuple[Punctuation, ...]) -> None:
        """Let a node in; what its class declares begins, unless it did so before."""
        self._fires[node] = fire
        names = {wanted.name for wanted in declared}
        for schedule in [one for one in self._schedules.values() if one.node == node and one.declared]:
            if schedule.name not in names:  # the class has changed
                self._remove(schedule)
        for wanted in declared:
            found = self._schedules.get((node, wanted.name))
            if found is None or not found.follows(wanted):
                self._begin(node, wanted, declared=True)

    def schedule(self, node: str, wanted: Punctuation) -> None:
        """Begin to call a method, unless it is called in just this way already."""
        found = self._schedules.get((node, wanted.name))
        if found is None or found.cancelled or not found.follows(wanted):
            self._begin(node, wanted, declared=found is not None and found.declared)

    def cancel(self, node: str, name: str) -> bool:
        """Stop to call a method."""
        found = self._schedules.get((node, name))
        if found is None or found.cancelled:
            return False
        self._remove(found)
        if found.declared:
            self._schedules[node, name] = found
        return True

    def active(self, node: str) -> tuple[str, ...]:
        """Return the names of a node's schedules."""
        return tuple(one.name for one in self.schedules_of(node))

    def schedules_of(self, node: str) -> list[Schedule]:
        """Return a node's schedules that are active."""
        return [one for one in self._schedules.values() if one.node == node and not one.cancelled]

    def fire(self, on: Clock, now: int) -> None:
        """Call all methods that are due, the earliest first, each at most once."""
        queue, called = self._queues[on], set[tuple[str, str]]()
        again: list[Schedule] = []
        while queue and queue[0][0] <= now:
            schedule = heapq.heappop(queue)[2]
            name = schedule.node, schedule.name
            if schedule.cancelled or schedule.node not in self._fires:
                continue
            if name in called:  # it was cancelled and begun again by what was called
                again.append(schedule)
                continue
            called.add(name)
            self._fires[schedule.node](schedule.method, now)
            if not schedule.cancelled:
                schedule.move_on(now)
                self._enqueue(schedule)
        for schedule in again:
            self._enqueue(schedule)
        self._look(on)

    def next_wall_times(self) -> dict[str, int]:
        """Return for each node when the wall clock has to call it next."""
        kept = [schedule for schedule in self._schedules.values() if self._keeps(schedule)]
        times = dict.fromkeys([*self._fires, *(schedule.node for schedule in kept)], FOREVER)
        for schedule in kept:
            if schedule.on == "wall" and not schedule.cancelled:
                times[schedule.node] = min(times[schedule.node], schedule.due)
        return times

    def _keeps(self, schedule: Schedule) -> bool:
        """Whether the node of a schedule is still in the topology."""
        return schedule.node in self._fires or schedule.node in self._nodes

    def changes(self) -> bytes | None:
        """Return what has to be stored, or None if nothing has changed."""
        waiting = sorted((number, schedule) for queue in self._queues.values() for _, number, schedule in queue)
        for turn, (_, schedule) in enumerate(waiting):
            schedule.turn = turn
        kept = [schedule for schedule in self._schedules.values() if self._keeps(schedule)]
        data = _encode(kept)
        return data if data != self._before and (kept or self._before is not None) else None

    def _begin(self, node: str, wanted: Punctuation, *, declared: bool) -> None:
        found = self._schedules.get((node, wanted.name))
        if found is not None:
            self._remove(found)
        first = 0 if wanted.on == "stream" else self.wall_time + wanted.every
        due = first if wanted.start is None else wanted.start
        schedule = Schedule(
            node, wanted.name, wanted.method, wanted.every, wanted.on, wanted.start, due, declared=declared
        )
        self._schedules[node, wanted.name] = schedule
        self._enqueue(schedule)

    def _remove(self, schedule: Schedule) -> None:
        schedule.cancelled = True
        self._schedules.pop((schedule.node, schedule.name), None)
        self._look(schedule.on)

    def _enqueue(self, schedule: Schedule) -> None:
        if not schedule.cancelled:
            self._number += 1  # equal times go in the order in which they were scheduled
            heapq.heappush(self._queues[schedule.on], (schedule.due, self._number, schedule))
        self._look(schedule.on)

    def _look(self, on: Clock) -> None:
        queue = self._queues[on]
        while queue and queue[0][2].cancelled:
            heapq.heappop(queue)
        due = queue[0][0] if queue else FOREVER
        if on == "stream":
            self.stream_due = due
        else:
            self.wall_due = due
