"""Records of which only key and time matter, as arrays, and groups of equal numbers in arrays."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from millstream.foundation.blocks import take_items
from millstream.foundation.key_columns import hashable_keys

_MAX_EMPTY = 4
"""Numbers are counted if there are at most this many possible ones per item, otherwise they are sorted."""
_FEW_NUMBERS = 4_096
_EARLIEST = np.iinfo(np.int64).min


class CodedRecords(NamedTuple):
    """Records without headers whose values are not null and do not matter."""

    keys: list[Any]
    """Distinct keys; there may be some that no record has."""
    codes: Any
    """For each record the index of its key."""
    times: Any
    """The timestamps."""

    def take(self, rows: Any) -> CodedRecords:
        """Return the records at the given indexes."""
        return CodedRecords(self.keys, self.codes[rows], self.times[rows])

    def lists(self) -> tuple[list[Any], list[int]]:
        """Return the key and the timestamp of each record."""
        return take_items(self.keys, self.codes.tolist()), self.times.tolist()

    def with_sorted_keys(self) -> CodedRecords:
        """Return the same records, numbered by the order of their keys.

        >>> CodedRecords(["b", "a"], np.array([0, 1, 0]), np.array([1, 2, 3])).with_sorted_keys()
        CodedRecords(keys=['a', 'b'], codes=array([1, 0, 1]), times=array([1, 2, 3]))
        """
        keys = sorted(self.keys)
        numbers = dict(zip(keys, range(len(keys)), strict=True))
        renumbered = np.fromiter(map(numbers.__getitem__, self.keys), np.int64, len(keys))
        return CodedRecords(keys, renumbered[self.codes], self.times)


def join_coded(parts: list[CodedRecords]) -> CodedRecords:
    """Return the records of several parts, one part after the other; each distinct key is numbered once.

    >>> join_coded([CodedRecords(["a"], np.array([0]), np.array([1])), CodedRecords(["b", "a"], np.array([1, 0]),
    ...     np.array([2, 3]))])
    CodedRecords(keys=['a', 'b'], codes=array([0, 0, 1]), times=array([1, 2, 3]))
    """
    numbers: dict[Any, int] = {}
    keys: dict[int, Any] = {}
    codes = []
    for part in parts:
        handles = hashable_keys(part.keys)
        renumbered = [numbers.setdefault(handle, len(numbers)) for handle in handles]
        keys.update(zip(renumbered, part.keys, strict=True))
        codes.append(np.array(renumbered, np.int64)[part.codes])
    times = np.concatenate([part.times for part in parts])
    return CodedRecords([keys[number] for number in range(len(keys))], np.concatenate(codes), times)


def distinct_numbers(numbers: Any) -> tuple[Any, Any]:
    """Return a row of each distinct number, by number, and for each row the index of its number among them.

    >>> rows, indexes = distinct_numbers(np.array([70, 90, 90]))
    >>> rows.tolist(), indexes.tolist()
    ([0, 2], [0, 1, 1])
    """
    low = int(numbers.min())
    width = int(numbers.max()) - low + 1
    if width > max(_FEW_NUMBERS, _MAX_EMPTY * len(numbers)):
        _, rows, indexes = np.unique(numbers, return_index=True, return_inverse=True)
        return rows, indexes
    shifted = numbers - low
    row_of = np.full(width, -1)
    row_of[shifted] = np.arange(len(numbers))
    is_present = row_of >= 0
    return row_of[is_present], (np.cumsum(is_present) - 1)[shifted]


class CodedGroups(NamedTuple):
    """Records with the same number, for each distinct number in order; all fields are arrays."""

    numbers: Any
    counts: Any
    latest: Any
    """The latest timestamp."""
    rows: Any
    """The first row."""


def groups_of(numbers: Any, times: Any) -> CodedGroups:
    """Group records by their numbers.

    >>> [column.tolist() for column in groups_of(np.array([3, 1, 3]), np.array([20, 5, 10]))]
    [[1, 3], [1, 2], [5, 20], [1, 0]]
    """
    examples, indexes = distinct_numbers(numbers)
    first, latest = np.full(len(examples), len(numbers)), np.full(len(examples), _EARLIEST)
    np.minimum.at(first, indexes, np.arange(len(numbers)))
    np.maximum.at(latest, indexes, times)
    return CodedGroups(numbers[examples], np.bincount(indexes), latest, first)
