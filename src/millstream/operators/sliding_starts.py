"""The sliding windows of many records, found in arrays.

For records of a key that are in order, ``sliding.py`` creates these windows: one that ends at each time, and one that
begins right after each time, if the next record still is in it. A window that ends at a record starts from the content
of the latest window before it. So what windows contain from before the batch comes from one stored window up to the
next window whose content is known for another reason: those on disk, those that begin after a record of the batch, and
those that end at a record that is far from the one before it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from millstream.foundation.blocks import take_items
from millstream.foundation.coded import CodedRecords
from millstream.state.entry_columns import StoredEntries

_STORED, _AFTER, _UP_TO = range(3)
"""How a window comes to be: it is on disk, begins right after a record, or ends at a record; a record meets the windows
in this order."""
_LARGEST = 2**62


class SlidingStarts(NamedTuple):
    """Windows that records have changed, by key, then start, as arrays."""

    numbers: Any
    """Which of the keys it is."""
    starts: Any
    kinds: Any
    rows: Any
    """The row of the first record that changed the window."""
    bases: Any
    """Which stored window it contains the records of: its index plus 1, or 0."""

    @property
    def is_stored(self) -> Any:
        """Whether a window is on disk."""
        return self.kinds == _STORED

    def take(self, rows: Any) -> SlidingStarts:
        """Return some of the windows."""
        return SlidingStarts(*(column[rows] for column in self))

    def in_order_of_arrival(self) -> Any:
        """Return the indexes of the windows in the order in which single records would have changed them."""
        return np.lexsort((-self.starts, self.kinds, self.rows))


class SortedRecords:
    """Records by key, then in the order of their arrival."""

    def __init__(self, records: CodedRecords, difference: int) -> None:
        present, codes = np.unique(records.codes, return_inverse=True)
        keys, numbers, times = CodedRecords(
            take_items(records.keys, present.tolist()), codes, records.times
        ).with_sorted_keys()
        self.keys = keys
        self.rows = np.argsort(numbers, kind="stable")
        self.numbers, self.times = numbers[self.rows], times[self.rows]
        self._difference = difference
        self._earliest = int(times.min()) - 2 * difference
        self._width = int(times.max()) + difference + 2 - self._earliest
        self.firsts = np.flatnonzero(np.concatenate(([True], self.numbers[1:] != self.numbers[:-1])))
        """The first record of each key."""

    @property
    def can_be_paired(self) -> bool:
        """Whether key and time can be one number."""
        return len(self.keys) * self._width < _LARGEST

    def pairs(self, numbers: Any, times: Any) -> Any:
        """Return numbers that have the order of pairs of key and time."""
        return numbers * self._width + (times - self._earliest)

    def is_in_order(self, stored: StoredEntries, closed: Any) -> Any:
        """Return for each key whether no record is earlier than one before it, or than its item of ``closed``."""
        result = np.full(len(self.keys), True)
        steps_back = (self.numbers[1:] == self.numbers[:-1]) & (self.times[1:] < self.times[:-1])
        result[self.numbers[1:][steps_back]] = False
        result[self.numbers[self.times < closed]] = False
        result[stored.numbers[stored.timestamps > self.times[self.firsts][stored.numbers]]] = False
        return result

    def counts(self, windows: SlidingStarts) -> tuple[Any, Any]:
        """Return for each window the number of its records and the latest timestamp."""
        own, ends = self.pairs(self.numbers, self.times), windows.starts + self._difference
        stops = np.searchsorted(own, self.pairs(windows.numbers, ends), "right")
        begins = np.searchsorted(own, self.pairs(windows.numbers, windows.starts))
        return stops - begins, self.times[stops - 1]

    def windows(self, is_counted: Any, stored: StoredEntries) -> SlidingStarts:
        """Return the windows of the keys for which ``is_counted`` holds; their records must be in order.

        ``stored`` are those of these keys on disk that the first record of each key meets.
        """
        difference = self._difference
        numbers, times, rows, follows, previous = self._distinct(is_counted)
        firsts, ends = np.flatnonzero(~follows), times - difference
        after = np.flatnonzero(follows & (previous >= ends - 1))
        bases, is_known = np.zeros(len(times), np.int64), ~follows | (previous < ends)
        bases[firsts], early, early_starts = self._first_windows(numbers[firsts], times[firsts], stored)
        early = firsts[early]
        starts, number_of_stored = stored.positions[:, 0], np.arange(len(stored.numbers)) + 1
        of_first = self.firsts[stored.numbers]
        changed = np.flatnonzero(starts >= self.times[of_first] - difference)
        return self._merged(
            np.concatenate((np.full(len(changed), True), np.full(len(after) + len(early), True), is_known)),
            SlidingStarts(
                np.concatenate((stored.numbers[changed], numbers[after], numbers[early], numbers)),
                np.concatenate((starts[changed], previous[after] + 1, early_starts, ends)),
                np.repeat([_STORED, _AFTER, _UP_TO], [len(changed), len(after) + len(early), len(times)]),
                np.concatenate((self.rows[of_first[changed]], rows[after], rows[early], rows)),
                np.concatenate((number_of_stored[changed], np.zeros(len(after) + len(early), np.int64), bases)),
            ),
        )

    def may_miss_windows(self, is_counted: Any, hidden: Any, stored: StoredEntries) -> Any:
        """Return for each key whether a record may not see a window because that has expired.

        ``hidden`` is the time up to which windows have expired when a record arrives, for each row. No record is so
        late that windows in the middle are hidden, but the first one that it looks at may be: it matters if it ends at
        the record before.
        """
        result, difference = np.full(len(self.keys), False), self._difference
        numbers, times, rows, follows, previous = self._distinct(is_counted)
        is_at_end = follows & (previous == times - difference)
        result[numbers[is_at_end & (times - 2 * difference <= hidden[rows])]] = True
        first_rows = self.rows[self.firsts]
        result[stored.numbers[stored.positions[:, 0] <= hidden[first_rows[stored.numbers]]]] = True
        return result

    def _distinct(self, is_counted: Any) -> tuple[Any, Any, Any, Any, Any]:
        """Return key, time and row of the first record of each time, whether it has the key of the one before, and that
        one's time.
        """
        differs = (self.numbers[1:] != self.numbers[:-1]) | (self.times[1:] != self.times[:-1])
        chosen = np.flatnonzero(np.concatenate(([True], differs)) & is_counted[self.numbers])
        numbers, times = self.numbers[chosen], self.times[chosen]
        follows = np.concatenate(([False], numbers[1:] == numbers[:-1]))[: len(numbers)]
        return numbers, times, self.rows[chosen], follows, np.concatenate(([0], times[:-1]))[: len(times)]

    def _first_windows(self, numbers: Any, times: Any, stored: StoredEntries) -> tuple[Any, Any, Any]:
        """Compare the first record of each key with stored windows.

        Return the base of the window that ends at it, for which records a window begins after the record before it,
        and the starts of these windows.
        """
        ends, size = times - self._difference, len(stored.numbers)
        if not size:
            return np.zeros(len(times), np.int64), np.zeros(0, np.int64), np.zeros(0, np.int64)
        at = self.pairs(stored.numbers, stored.positions[:, 0])
        own = self.pairs(numbers, ends)
        next_one = np.searchsorted(at, own)
        same, left = np.minimum(next_one, size - 1), np.maximum(next_one - 1, 0)
        has_same = at[same] == own
        has_left = (next_one > 0) & (stored.numbers[left] == numbers)
        previous = np.where(has_left, stored.timestamps[left], stored.timestamps[same])
        is_repeated = has_same & (stored.timestamps[same] >= times)
        bases = np.where(has_left & ~has_same & (previous >= ends), left + 1, 0)
        begins = (has_left | has_same) & ~is_repeated & (previous + 1 >= ends)
        begins[begins] = ~np.isin(self.pairs(numbers[begins], previous[begins] + 1), at)
        chosen = np.flatnonzero(begins)
        return bases, chosen, previous[chosen] + 1

    def _merged(self, is_known: Any, windows: SlidingStarts) -> SlidingStarts:
        """Sort windows, remove repetitions, and pass bases on up to the next window whose content is known."""
        pairs = self.pairs(windows.numbers, windows.starts)
        order = np.lexsort((windows.kinds, pairs))
        pairs = pairs[order]
        order = order[np.concatenate(([True], pairs[1:] != pairs[:-1]))[: len(order)]]
        windows = windows.take(order)
        known = np.maximum.accumulate(np.where(is_known[order], np.arange(len(order)), 0))
        return windows._replace(bases=windows.bases[known])
