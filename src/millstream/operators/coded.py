"""What operators do with records of which only key and time matter, which are arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from millstream.foundation.coded import CodedRecords

_MAX_SHIFT = 1 << 62

ProcessCoded: TypeAlias = Callable[[CodedRecords, Any, int], bool]
"""Processes consecutive records of a chunk, given with the chunk and their first row there.

It returns False, without any effect, if they have to be processed in another way."""


class SortedGroups:
    """Records sorted by their numbers, so that results can be computed for each record of a group."""

    def __init__(self, numbers: Any, times: Any) -> None:
        self._order = np.argsort(numbers, kind="stable")
        ordered = numbers[self._order]
        starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
        self._sizes = np.diff(np.append(starts, len(ordered)))
        self._starts = starts
        self._times = times[self._order]
        self.numbers: list[int] = ordered[starts].tolist()
        """The number of each group."""

    def groups(self) -> list[int]:
        """Return the group of each record."""
        return self._unsorted(np.repeat(np.arange(len(self._starts)), self._sizes)).tolist()  # type: ignore[no-any-return]

    def counts(self, before: list[int]) -> tuple[list[int], list[int]]:
        """Return the count at each record and at the end of each group, given the counts before the first records."""
        counts = np.arange(len(self._order)) + np.repeat(np.array(before, np.int64) - self._starts + 1, self._sizes)
        return self._unsorted(counts).tolist(), counts[self._starts + self._sizes - 1].tolist()

    def latest(self, before: list[int]) -> tuple[list[int], list[int]]:
        """Return the latest timestamp up to each record and in each group, given those before the first records."""
        times, earliest = self._times.copy(), int(self._times.min())
        times[self._starts] = np.maximum(times[self._starts], np.array(before, np.int64))
        length = int(times.max()) - earliest + 1
        if length * len(self._starts) < _MAX_SHIFT:
            # each group gets its own range of numbers, above those of the groups before it
            shift = np.repeat(np.arange(len(self._starts)) * length, self._sizes) - earliest
            latest = np.maximum.accumulate(times + shift) - shift
        else:
            latest = np.concatenate([np.maximum.accumulate(part) for part in np.split(times, self._starts[1:])])
        return self._unsorted(latest).tolist(), latest[self._starts + self._sizes - 1].tolist()

    def _unsorted(self, results: Any) -> Any:
        unsorted = np.empty(len(results), np.int64)
        unsorted[self._order] = results
        return unsorted
