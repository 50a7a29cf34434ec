"""Counts of many keys, column by column: no object is created for a row.

The records of a batch are only collected, as numbers of keys and timestamps. At its end they are counted in arrays, and
all rows are read, changed and written as columns in key order.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from itertools import count
from operator import add, itemgetter
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from millstream.foundation.blocks import take_items
from millstream.foundation.coded import CodedRecords, groups_of
from millstream.foundation.key_columns import encode_keys, sorted_keys
from millstream.foundation.transactions import Cursor

_TIME_BYTES = 8
_LARGEST = 2**63 - 1
_MAX_CHARACTER_BYTES = 4
_PART = 1_000
"""Rows are changed in parts of this size, whose pages and objects stay in the processor's caches."""
_first, _second = itemgetter(0), itemgetter(1)

EncodeColumn: TypeAlias = Callable[[list[bytes], list[Any]], list[bytes]]
"""Takes LMDB keys and values; a key is only needed for the message of an error."""

DecodeColumn: TypeAlias = Callable[[list[bytes], list[bytes]], list[Any]]
"""Takes LMDB keys and values without timestamps; a key is only needed for the message of an error."""


class CountedRows(NamedTuple):
    """Rows with their new values, in the order in which their keys first occurred."""

    keys: list[Any]
    values: list[Any]
    timestamps: list[int]


class CountedRecords:
    """Keys and timestamps of records that are going to be counted, as arrays; keys are numbered as they arrive."""

    __slots__ = ("_codes", "_numbers", "_times")

    def __init__(self) -> None:
        self.clear()

    def __bool__(self) -> bool:
        return bool(self._codes)

    def clear(self) -> None:
        """Forget all records."""
        self._numbers: defaultdict[Any, int] = defaultdict(count().__next__)
        self._codes: list[Any] = []
        self._times: list[Any] = []

    def add(self, keys: list[Any], timestamps: Any, max_key_bytes: int, codes: Any = None) -> bool:
        """Add records; return False, and do nothing, if the encoded keys may be too long or have another order.

        Timestamps are a list or an array. With ``codes``, the keys are distinct, and these are their indexes.
        """
        if not _can_sort(keys) or (self._numbers and type(next(iter(self._numbers))) is not type(keys[0])):
            return False
        if type(keys[0]) is str and _MAX_CHARACTER_BYTES * max(map(len, keys)) >= max_key_bytes:
            return False
        numbers = np.fromiter(map(self._numbers.__getitem__, keys), np.int64, len(keys))
        self._codes.append(numbers if codes is None else numbers[codes])
        self._times.append(np.asarray(timestamps, np.int64))
        return True

    def records(self) -> CodedRecords:
        """Return all records."""
        return CodedRecords(list(self._numbers), np.concatenate(self._codes), np.concatenate(self._times))

    def take(self) -> CodedRecords:
        """Return all records and forget them."""
        records = self.records()
        self.clear()
        return records


def _can_sort(keys: list[Any]) -> bool:
    """Whether keys have the order of their encoded keys: all are text, or all are integers of 64 bits.

    >>> _can_sort(["a", "b"]), _can_sort([1, 2]), _can_sort([1, "a"]), _can_sort([2**63])
    (True, True, False, False)
    """
    kinds = set(map(type, keys))
    return kinds == {str} or (kinds == {int} and max(keys) <= _LARGEST and min(keys) >= -_LARGEST - 1)


class CountedKeys:
    """The number of records and the latest timestamp of each key, in the order of encoded keys."""

    def __init__(self, records: CodedRecords) -> None:
        groups = groups_of(records.codes, records.times)
        arrival = np.argsort(groups.rows)
        self._arrived = take_items(records.keys, groups.numbers[arrival].tolist())
        encoded = encode_keys(self._arrived)
        self.key_bytes, self._order = sorted_keys(encoded)
        self.counts, self.latest = groups.counts[arrival][self._order], groups.latest[arrival][self._order]

    def rows(self, values: list[Any], timestamps: Any) -> CountedRows:
        """Return rows whose values and timestamps are given in key order."""
        arrived = np.empty_like(self._order)
        arrived[self._order] = np.arange(len(arrived))
        return CountedRows(self._arrived, take_items(values, arrived.tolist()), timestamps[arrived].tolist())


def add_counts(
    cursor: Cursor, counted: CountedKeys, decode: DecodeColumn, encode: EncodeColumn
) -> tuple[list[Any], Any]:
    """Add counts to the stored rows of their keys; return the new values, and the timestamps as an array."""
    values: list[Any] = []
    timestamps = np.empty_like(counted.latest)
    for start in range(0, len(counted.key_bytes), _PART):
        part = slice(start, start + _PART)
        key_bytes = counted.key_bytes[part]
        before, times = read_counts(cursor, key_bytes, decode)
        if None in before:
            before = [value or 0 for value in before]
        after = list(map(add, before, counted.counts[part].tolist()))
        timestamps[part] = np.maximum(times, counted.latest[part])
        write_counts(cursor, key_bytes, encode(key_bytes, after), timestamps[part])
        values += after
    return values, timestamps


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
