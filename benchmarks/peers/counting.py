"""What the counts that a program has written say: how many rides are in them, and which are missing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from benchmarks.zone_counts import ZoneCount

Window = tuple[int, int]
"""A zone and the begin of a minute."""


class Update(ZoneCount):
    """A count as it stands in a topic."""

    diff: int | None = None
    """None: it replaces the one before. 1 or -1: it is added or taken back, as Pathway says it."""


class Tally:
    """The counts after some updates."""

    def __init__(self) -> None:
        self.counts: Counter[Window] = Counter()
        self.total = 0

    def add(self, update: Update) -> None:
        """Take in an update."""
        window = update.zone, update.start
        change = update.count - self.counts[window] if update.diff is None else update.count * update.diff
        self.counts[window] += change
        self.total += change


class Faults(NamedTuple):
    """How far counts are from those that are right, as shares of all rides."""

    missing: float
    extra: float


def faults(found: Mapping[Window, int], expected: Counter[Window]) -> Faults:
    """Compare counts with the right ones; what is missing in one window does not make up for an extra in another."""
    counted = Counter(found)
    total = expected.total()
    return Faults((expected - counted).total() / total, (counted - expected).total() / total)


def totals(updates: Iterable[tuple[int, int, Update]], looks: Sequence[Sequence[int]]) -> tuple[list[int], Tally]:
    """Return how many rides were counted at each look, and the counts at the last one.

    Updates come with partition and offset, partition by partition; a look is where each partition ended.
    """
    steps: list[list[Update]] = [[] for _ in looks]
    numbers = [0] * len(looks[0])
    for partition, offset, update in updates:
        while numbers[partition] < len(looks) - 1 and offset >= looks[numbers[partition]][partition]:
            numbers[partition] += 1
        steps[numbers[partition]].append(update)
    tally, found = Tally(), []
    for step in steps:
        for update in step:
            tally.add(update)
        found.append(tally.total)
    return found, tally
