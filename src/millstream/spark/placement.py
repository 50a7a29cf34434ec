"""Which host runs which task: a task stays where its state is and moves only to keep the hosts evenly loaded."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

from millstream.plan.layout import Layout

ANYWHERE = ""
"""The host of a slot that may run on any executor."""

Levels: TypeAlias = Sequence[Mapping[int, str]]
"""The tasks of each level, each with the name of its state; tasks that run in rounds share one."""


class Slot(NamedTuple):
    """Tasks of one level that one Spark task runs, on one host."""

    host: str
    tasks: tuple[int, ...]


Slots: TypeAlias = tuple[tuple[Slot, ...], ...]
"""The slots of each level."""


def levels_of(layout: Layout, names: Sequence[str]) -> Levels:
    """Return the tasks of each level, by the names of all tasks."""
    return [{task: names[task] for task in layout.tasks_on(level)} for level in range(layout.plan.levels)]


def spread(levels: Levels, cores: int) -> Slots:
    """Spread the tasks of each level over the cores of one host."""
    return slots_of(levels, {}, {ANYWHERE: cores})


def assign(levels: Levels, cores: Mapping[str, int], current: Mapping[str, str]) -> dict[str, str]:
    """Return the host of each state: each level is spread by cores, and as few states as possible leave their host."""
    hosts: dict[str, str] = {}
    for tasks in levels:
        names = list(dict.fromkeys(name for name in tasks.values() if name not in hosts))
        staying: dict[str, list[str]] = {host: [] for host in sorted(cores)}
        moving: list[str] = []
        for name in names:
            staying.get(current.get(name, ANYWHERE), moving).append(name)
        shares = _shares(len(names), cores, {host: len(held) for host, held in staying.items()})
        for host, held in staying.items():
            moving += held[shares[host] :]
            del held[shares[host] :]
        for host, held in staying.items():
            count = shares[host] - len(held)
            hosts.update(dict.fromkeys([*held, *moving[:count]], host))
            del moving[:count]
    return hosts


def is_displaced(name: str, host: str, hosts: Mapping[str, str]) -> bool:
    """Whether a state was used on another host than assigned; reports of idle tasks and global tables name no state."""
    return host in hosts.values() and hosts.get(name, host) != host


def _shares(count: int, cores: Mapping[str, int], held: Mapping[str, int]) -> dict[str, int]:
    """Return how many of ``count`` states each host gets, in proportion to its cores.

    What is left after rounding down goes to the largest remainders; among equal ones, to the host that holds the most
    states beyond its share.
    """
    total = sum(cores.values())
    shares = {host: count * number // total for host, number in cores.items()}
    by_remainder = sorted(cores, key=lambda host: (-(count * cores[host] % total), shares[host] - held[host], host))
    for host in by_remainder[: count - sum(shares.values())]:
        shares[host] += 1
    return shares


def slots_of(levels: Levels, hosts: Mapping[str, str], cores: Mapping[str, int]) -> Slots:
    """Return the slots of each level: on each host at most one per core, with the tasks of that host."""
    slots: list[tuple[Slot, ...]] = []
    for tasks in levels:
        by_host: dict[str, list[int]] = defaultdict(list)
        for task, name in tasks.items():
            by_host[hosts.get(name, ANYWHERE)].append(task)
        level: list[Slot] = []
        for host, held in sorted(by_host.items()):
            width = min(len(held), max(1, cores.get(host, 1)))
            level += (Slot(host, tuple(held[number::width])) for number in range(width))
        slots.append(tuple(level))
    return tuple(slots)


class Seat(NamedTuple):
    """A Spark task that stays on a host and runs one slot of each level, or none."""

    host: str
    slots: tuple[int | None, ...]
    """By level, the number of the slot."""


def seats_of(slots: Slots) -> tuple[Seat, ...]:
    """Return the seats that run all slots at the same time: on each host as many as it has slots on any level."""
    by_host: dict[str, list[list[int]]] = defaultdict(lambda: [[] for _ in slots])
    for number, level in enumerate(slots):
        for index, slot in enumerate(level):
            by_host[slot.host][number].append(index)
    return tuple(Seat(host, own) for host, levels in sorted(by_host.items()) for own in itertools.zip_longest(*levels))
