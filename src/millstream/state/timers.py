"""Timers: when which methods of processors are called. They are part of the state because they outlive a batch."""

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
    """A method that is called periodically; ``due`` is the time of the next call.

    A cancelled schedule is kept if its class declares it, so that the next batch does not start it again.
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
    order: int = 0
    """The order, at the start of a batch, among schedules that are due at the same time."""

    def matches(self, punctuation: Punctuation) -> bool:
        """Whether the schedule is that of a punctuation."""
        return (self.method, self.every, self.on, self.start) == (
            punctuation.method,
            punctuation.every,
            punctuation.on,
            punctuation.start,
        )

    def advance(self, now: int) -> None:
        """Set ``due`` to the first interval boundary after ``now``; missed calls are skipped."""
        self.due += self.every * max(1, (now - self.due) // self.every + 1)


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[Schedule]).decode


def merged_timers(stored: bytes | None, others: bytes | None) -> bytes | None:
    """Return the stored timers of two tasks that become one; those of a step count once."""
    if stored is None or others is None:
        return others if stored is None else stored
    schedules = {(schedule.node, schedule.name): schedule for schedule in (*_decode(others), *_decode(stored))}
    return _encode(list(schedules.values()))


class Timers:
    """The timers of a task; ``stream_due`` and ``wall_due`` are the times of the next calls."""

    def __init__(self, stored: bytes | None, wall_time: int, nodes: Collection[str] = ()) -> None:
        """Keep the timers of all ``nodes``, also of those that are attached in another round of the batch."""
        self._nodes = frozenset(nodes)
        schedules = [] if stored is None else _decode(stored)
        self._schedules = {(schedule.node, schedule.name): schedule for schedule in schedules}
        self._stored = stored
        self.wall_time = wall_time
        """The wall-clock time from which new schedules count."""
        self._fires: dict[str, Fire] = {}
        self._queues: dict[Clock, list[tuple[int, int, Schedule]]] = {"stream": [], "wall": []}
        self._number = 0
        self.stream_due = FOREVER
        self.wall_due = FOREVER
        for schedule in sorted(self._schedules.values(), key=attrgetter("order")):
            self._enqueue(schedule)

    @property
    def in_use(self) -> bool:
        return bool(self._fires)

    def attach(self, node: str, fire: Fire, declared: tuple[Punctuation, ...]) -> None:
        """Register a node; start the punctuations that its class declares, unless they were started before."""
        self._fires[node] = fire
        names = {punctuation.name for punctuation in declared}
        for schedule in list(self._schedules.values()):
            is_removed = schedule.name not in names  # the class has changed
            if schedule.node == node and schedule.declared and is_removed:
                self._remove(schedule)
        for punctuation in declared:
            existing = self._schedules.get((node, punctuation.name))
            if existing is None or not existing.matches(punctuation):
                self._start(node, punctuation, declared=True)

    def schedule(self, node: str, punctuation: Punctuation) -> None:
        """Start a punctuation, unless the same one is active."""
        existing = self._schedules.get((node, punctuation.name))
        if existing is None or existing.cancelled or not existing.matches(punctuation):
            self._start(node, punctuation, declared=existing is not None and existing.declared)

    def cancel(self, node: str, name: str) -> bool:
        """Stop a punctuation; False if it is not active."""
        schedule = self._schedules.get((node, name))
        if schedule is None or schedule.cancelled:
            return False
        self._remove(schedule)
        if schedule.declared:
            self._schedules[node, name] = schedule
        return True

    def active(self, node: str) -> tuple[str, ...]:
        """Return the names of a node's active schedules."""
        return tuple(schedule.name for schedule in self.schedules_of(node))

    def schedules_of(self, node: str) -> list[Schedule]:
        """Return a node's active schedules."""
        schedules = self._schedules.values()
        return [schedule for schedule in schedules if schedule.node == node and not schedule.cancelled]

    def fire(self, on: Clock, now: int) -> None:
        """Call all methods that are due, the earliest first, each at most once."""
        queue, called = self._queues[on], set[tuple[str, str]]()
        restarted: list[Schedule] = []
        while queue and queue[0][0] <= now:
            schedule = heapq.heappop(queue)[2]
            name = schedule.node, schedule.name
            if schedule.cancelled or schedule.node not in self._fires:
                continue
            if name in called:  # one of the called methods cancelled it and scheduled it again
                restarted.append(schedule)
                continue
            called.add(name)
            self._fires[schedule.node](schedule.method, now)
            if not schedule.cancelled:
                schedule.advance(now)
                self._enqueue(schedule)
        for schedule in restarted:
            self._enqueue(schedule)
        self._update_due(on)

    def next_wall_times(self) -> dict[str, int]:
        """Return the next wall-clock time at which each node is called."""
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
        """Return the schedules to store, or None if they are stored already."""
        waiting = sorted((number, schedule) for queue in self._queues.values() for _, number, schedule in queue)
        for order, (_, schedule) in enumerate(waiting):
            schedule.order = order
        kept = [schedule for schedule in self._schedules.values() if self._keeps(schedule)]
        data = _encode(kept)
        return data if data != self._stored and (kept or self._stored is not None) else None

    def _start(self, node: str, punctuation: Punctuation, *, declared: bool) -> None:
        existing = self._schedules.get((node, punctuation.name))
        if existing is not None:
            self._remove(existing)
        first = 0 if punctuation.on == "stream" else self.wall_time + punctuation.every
        schedule = Schedule(
            node,
            punctuation.name,
            punctuation.method,
            punctuation.every,
            punctuation.on,
            punctuation.start,
            due=first if punctuation.start is None else punctuation.start,
            declared=declared,
        )
        self._schedules[node, punctuation.name] = schedule
        self._enqueue(schedule)

    def _remove(self, schedule: Schedule) -> None:
        schedule.cancelled = True
        self._schedules.pop((schedule.node, schedule.name), None)
        self._update_due(schedule.on)

    def _enqueue(self, schedule: Schedule) -> None:
        if not schedule.cancelled:
            self._number += 1  # schedules with the same time are called in the order in which they were added
            heapq.heappush(self._queues[schedule.on], (schedule.due, self._number, schedule))
        self._update_due(schedule.on)

    def _update_due(self, on: Clock) -> None:
        queue = self._queues[on]
        while queue and queue[0][2].cancelled:
            heapq.heappop(queue)
        due = queue[0][0] if queue else FOREVER
        if on == "stream":
            self.stream_due = due
        else:
            self.wall_due = due
