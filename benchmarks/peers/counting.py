"""Evaluate the counts that a program has written: how many rides they include, and how many are missing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from benchmarks.zone_counts import ZoneCount

Window = tuple[int, int]
"""A zone and the start of a minute."""


class Update(ZoneCount):
    """A count as written to a topic."""

    diff: int | None = None
    """None: replaces the previous count. 1 or -1: adds or retracts a count, as Pathway does."""


class Tally:
    """The current counts, built from updates."""

    def __init__(self) -> None:
        self.counts: Counter[Window] = Counter()
        self.total = 0

    def add(self, update: Update) -> None:
        """Apply an update."""
        window = update.zone, update.start
        change = update.count - self.counts[window] if update.diff is None else update.count * update.diff
        self.counts[window] += change
        self.total += change


class Deviation(NamedTuple):
    """The difference from the correct counts, as shares of all rides."""

    missing: float
    extra: float


def deviation(counts: Mapping[Window, int], expected: Counter[Window]) -> Deviation:
    """Compare counts with the correct ones; missing rides in one window do not offset extra rides in another."""
    actual = Counter(counts)
    total = expected.total()
    return Deviation((expected - actual).total() / total, (actual - expected).total() / total)


def totals(updates: Iterable[tuple[int, int, Update]], samples: Sequence[Sequence[int]]) -> tuple[list[int], Tally]:
    """Return the number of rides counted at each sample, and the counts at the last one.

    Updates have a partition and an offset and are ordered by partition; a sample is the end offset of each partition.
    """
    steps: list[list[Update]] = [[] for _ in samples]
    numbers = [0] * len(samples[0])
    for partition, offset, update in updates:
        while numbers[partition] < len(samples) - 1 and offset >= samples[numbers[partition]][partition]:
            numbers[partition] += 1
        steps[numbers[partition]].append(update)
    tally, rides = Tally(), []
    for step in steps:
        for update in step:
            tally.add(update)
        rides.append(tally.total)
    return rides, tally
