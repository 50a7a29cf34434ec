"""Entries of many keys as columns: they are read and written without an object for each."""

from __future__ import annotations

import struct
from operator import add
from typing import Any, NamedTuple

import numpy as np

from millstream.foundation.blocks import take_items
from millstream.foundation.object_codec import decode_values, encode_values
from millstream.foundation.transactions import Cursor, Database, Transaction
from millstream.serdes import Serde
from millstream.state.counted import write_counts
from millstream.state.segments import ENTRIES, SEGMENT, TIMESTAMP, segment_prefixes

_PACKED = np.dtype(">u8")


class StoredEntries(NamedTuple):
    """Stored entries by key, then by position; all except ``values`` are arrays."""

    numbers: Any
    """Which of the given keys it is."""
    positions: Any
    """One row for each entry."""
    values: list[Any]
    timestamps: Any

    def take(self, rows: Any) -> StoredEntries:
        """Return the entries at the given indexes."""
        numbers, positions, values, timestamps = self
        return StoredEntries(numbers[rows], positions[rows], take_items(values, rows.tolist()), timestamps[rows])


class EntryColumns:
    """Reads and writes entries of a timed store; all keys are short."""

    def __init__(
        self,
        txn: Transaction,
        database: Database,
        codec: Serde,
        layout: struct.Struct,
        segment_length: int,
        expired: int,
        skip_expired: bool,
    ) -> None:
        self._txn = txn
        self._database = database
        self._codec = codec
        self._layout = layout
        self._segment_length = segment_length
        self._expired = expired
        self._skip_expired = skip_expired

    def read(self, key_bytes: list[bytes], since: list[int], until: list[int]) -> StoredEntries:
        """Read the entries of each key between two times of its own, ``since`` included.

        At first only LMDB keys are read, and then all values in one pass.
        """
        segments = list(segment_prefixes(self._txn, self._database))
        numbers: list[int] = []
        keys: list[bytes] = []
        with self._txn.cursor(self._database) as cursor:
            for segment in segments:
                start = SEGMENT.unpack(segment)[1] * self._segment_length
                end = start + self._segment_length
                needed = [number for number, time in enumerate(since) if time < end and until[number] > start]
                _find(cursor, segment, needed, key_bytes, since, until, self._layout.size, numbers, keys)
            return self._decoded(np.array(numbers, np.int64), keys, cursor)

    def write(self, keys: list[bytes], times: Any, values: list[Any], timestamps: Any, is_stored: Any) -> None:
        """Write entries, given with their LMDB keys in order; ``is_stored`` says which are on disk already.

        Entries that have expired are not written, and deleted with their segment.
        """
        expired, length = self._expired, self._segment_length
        is_kept = times // length >= max(0, expired) // length
        for index in np.flatnonzero(is_stored & ~is_kept).tolist():
            self._txn.delete(keys[index], db=self._database)
        if self._skip_expired:
            is_kept &= is_stored | (times >= expired)
        if not is_kept.all():
            kept = np.flatnonzero(is_kept)
            keys, values, timestamps = (
                take_items(keys, kept.tolist()),
                take_items(values, kept.tolist()),
                timestamps[kept],
            )
        with self._txn.cursor(self._database) as cursor:
            write_counts(cursor, keys, encode_values(self._codec, values), timestamps)

    def _decoded(self, numbers: Any, keys: list[bytes], cursor: Cursor) -> StoredEntries:
        stored = [data for _, data in cursor.getmulti(keys)]
        size, width = TIMESTAMP.size, self._layout.size
        values = decode_values(self._codec, [data[size:] for data in stored])
        timestamps = np.frombuffer(b"".join([data[:size] for data in stored]), ">i8").astype(np.int64)
        packed = np.frombuffer(b"".join([key[-width:] for key in keys]), _PACKED)
        positions = packed.astype(np.int64).reshape(len(keys), width // _PACKED.itemsize)
        order = np.argsort(numbers, kind="stable")  # those of a key are in order, since segments are in order of time
        return StoredEntries(numbers, positions, values, timestamps).take(order)


def _find(
    cursor: Cursor,
    segment: bytes,
    needed: list[int],
    key_bytes: list[bytes],
    since: list[int],
    until: list[int],
    width: int,
    numbers: list[int],
    keys: list[bytes],
) -> None:
    """Add the LMDB keys of a segment's entries between two times; ``needed`` are indexes of keys, in their order."""
    set_range, key_at, following = cursor.set_range, cursor.key, cursor.next
    for number in needed:
        prefix = segment + key_bytes[number]
        length, stop = len(prefix) + width, prefix + until[number].to_bytes(8, "big")
        has_entry = set_range(prefix + since[number].to_bytes(8, "big"))
        while has_entry:
            physical = key_at()
            if physical >= stop:
                break
            if len(physical) == length:  # entries of longer keys can be in between
                numbers.append(number)
                keys.append(physical)
            has_entry = following()


def physical_keys(key_bytes: list[bytes], numbers: Any, positions: Any, segment_length: int) -> list[bytes]:
    """Return the LMDB keys of entries; ``numbers`` are the indexes of their keys, ``positions`` an array of rows."""
    segments = positions[:, 0] // segment_length
    prefixes = {number: SEGMENT.pack(ENTRIES, number) for number in np.unique(segments).tolist()}
    parts = map(prefixes.__getitem__, segments.tolist()), take_items(key_bytes, numbers.tolist())
    packed = np.ascontiguousarray(positions, _PACKED).view(f"V{positions.shape[1] * _PACKED.itemsize}").ravel()
    return list(map(add, map(add, *parts), packed.tolist()))
