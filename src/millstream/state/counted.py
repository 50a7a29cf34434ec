"""Counts of many keys, column by column: no object is created for a row.

The records of a batch are only collected. At its end their keys are counted in one call, and all rows are read, changed
and written as columns in key order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from operator import add, itemgetter
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from millstream.foundation.blocks import take_items
from millstream.foundation.key_columns import encode_keys
from millstream.foundation.transactions import Cursor

_TIME_BYTES = 8
_LARGEST = 2**63 - 1
_MAX_CHARACTER_BYTES = 4
_MAX_ARRAY_BYTES = 64
"""An array of bytes has the length of the longest key for each."""
_first, _second = itemgetter(0), itemgetter(1)

DecodeColumn: TypeAlias = Callable[[list[bytes], list[bytes]], list[Any]]
"""Takes LMDB keys and values without timestamps; a key is only needed for the message of an error."""


class CountedRows(NamedTuple):
    """Rows with their new values, in the order in which their keys first occurred."""

    keys: list[Any]
    values: list[Any]
    timestamps: list[int]


class CountedRecords:
    """Keys and timestamps of records that are going to be counted."""

    __slots__ = ("keys", "timestamps")

    def __init__(self) -> None:
        self.keys: list[Any] = []
        self.timestamps: list[int] = []

    def add(self, keys: list[Any], timestamps: list[int], max_key_bytes: int) -> bool:
        """Add records; return False, and do nothing, if the encoded keys may be too long or have another order."""
        if not _can_sort(keys) or (self.keys and type(self.keys[0]) is not type(keys[0])):
            return False
        if type(keys[0]) is str and _MAX_CHARACTER_BYTES * max(map(len, keys)) >= max_key_bytes:
            return False
        self.keys += keys
        self.timestamps += timestamps
        return True

    def take(self) -> tuple[list[Any], list[int]]:
        """Return all records and forget them."""
        taken = self.keys, self.timestamps
        self.keys, self.timestamps = [], []
        return taken


def _can_sort(keys: list[Any]) -> bool:
    """Whether keys have the order of their encoded keys: all are text, or all are integers of 64 bits.

    >>> _can_sort(["a", "b"]), _can_sort([1, 2]), _can_sort([1, "a"]), _can_sort([2**63])
    (True, True, False, False)
    """
    kinds = set(map(type, keys))
    return kinds == {str} or (kinds == {int} and max(keys) <= _LARGEST and min(keys) >= -_LARGEST - 1)


class CountedKeys:
    """The number of records and the latest timestamp of each key, in the order of encoded keys."""

    def __init__(self, keys: list[Any], timestamps: list[int]) -> None:
        counts = Counter(keys)
        self._arrived = list(counts)
        encoded = encode_keys(self._arrived)
        self._order = order_of(encoded)
        self.key_bytes = take_items(encoded, self._order.tolist())
        self.counts = np.fromiter(counts.values(), np.int64, len(counts))[self._order]
        self.latest = np.fromiter(_latest(keys, timestamps).values(), np.int64, len(counts))[self._order]

    def rows(self, values: list[Any], timestamps: Any) -> CountedRows:
        """Return rows whose values and timestamps are given in key order."""
        arrived = np.empty_like(self._order)
        arrived[self._order] = np.arange(len(arrived))
        return CountedRows(self._arrived, take_items(values, arrived.tolist()), timestamps[arrived].tolist())


def _latest(keys: list[Any], timestamps: list[int]) -> dict[Any, int]:
    """Return the latest timestamp of each key, keys as they arrive: a dict keeps the last of several timestamps."""
    if sorted(timestamps) == timestamps:  # sorting what is sorted is one pass
        return dict(zip(keys, timestamps, strict=True))
    latest = dict.fromkeys(keys, -1)
    latest.update(sorted(zip(keys, timestamps, strict=True), key=_second))
    return latest


def order_of(encoded: list[bytes]) -> Any:
    """Return an array of the indexes that sort encoded keys, which is the order in which LMDB is fastest."""
    if max(map(len, encoded)) > _MAX_ARRAY_BYTES:
        return np.array(sorted(range(len(encoded)), key=encoded.__getitem__))
    return np.argsort(np.array(encoded))


def read_counts(cursor: Cursor, key_bytes: list[bytes], decode: DecodeColumn) -> tuple[list[Any], Any]:
    """Return the stored value of each key, None if there is none, and the timestamps as an array, -1 then."""
    pairs = cursor.getmulti(key_bytes)
    stored = list(map(_second, pairs))
    values = decode(list(map(_first, pairs)), [data[_TIME_BYTES:] for data in stored])
    timestamps = np.frombuffer(b"".join([data[:_TIME_BYTES] for data in stored]), ">i8").astype(np.int64)
    if len(pairs) == len(key_bytes):
        return values, timestamps
    by_key = dict(zip(map(_first, pairs), values, strict=True))
    is_stored = np.fromiter(map(by_key.__contains__, key_bytes), bool, len(key_bytes))
    all_timestamps = np.full(len(key_bytes), -1)
    all_timestamps[is_stored] = timestamps
    return list(map(by_key.get, key_bytes)), all_timestamps


def write_counts(cursor: Cursor, key_bytes: list[bytes], values: list[bytes], timestamps: Any) -> None:
    """Store encoded values with their timestamps."""
    packed = timestamps.astype(">i8").view(f"V{_TIME_BYTES}").tolist()
    cursor.putmulti(zip(key_bytes, map(add, packed, values), strict=True))
