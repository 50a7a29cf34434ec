"""How entries by key and time are stored and read.

Entries are stored in segments of time, so that expired entries are deleted segment by segment, and within a segment by
key and position. There can also be an index by position and key, and there are a few numbers for the whole store.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

from millstream.foundation.object_codec import decode_key, encode_key
from millstream.foundation.transactions import Database, Transaction
from millstream.state.encoding import KEY_LENGTH, is_shortened, shorten_key
from millstream.state.entries import Entry
from millstream.windows import SessionWindows, Windows

ENTRIES, INDEX = b"d", b"t"
SEGMENT = struct.Struct(">cQ")
TIMESTAMP = struct.Struct(">q")
ONE_TIME, TWO_TIMES = struct.Struct(">Q"), struct.Struct(">QQ")
KEY_LIMIT = 400
NUMBERS = b"m."
OBSERVED, EMITTED, STREAM_TIME = b"m.observed", b"m.emitted", b"m.stream-time."


def position_layout(windows: Windows) -> struct.Struct:
    """Return how positions are packed for a kind of window: the start, for sessions the end and the start."""
    return TWO_TIMES if isinstance(windows, SessionWindows) else ONE_TIME


def stored_key(key: Any) -> bytes:
    """Return the encoded key as used in LMDB keys: shortened if it is too long."""
    encoded = encode_key(key)
    return encoded if len(encoded) < KEY_LIMIT else shorten_key(encoded, KEY_LIMIT)


def long_key_prefix(key: Any) -> bytes:
    """Return the prefix of a stored value whose key is shortened: the full encoded key and its length."""
    encoded = encode_key(key)
    return KEY_LENGTH.pack(len(encoded)) + encoded


def scan_timed(
    txn: Transaction, database: Database, decode: Any, layout: struct.Struct, prefix: bytes = ENTRIES
) -> Iterator[tuple[bytes, Entry]]:
    """Yield stored entries with their LMDB keys, by segment, key and position."""
    size = layout.size
    with txn.cursor(database) as cursor:
        if not cursor.set_range(prefix):
            return
        for physical, stored in cursor:
            if not physical.startswith(prefix):
                return
            key_bytes = key = physical[SEGMENT.size : -size]
            skip = 0
            if is_shortened(key_bytes, KEY_LIMIT):
                (length,) = KEY_LENGTH.unpack_from(stored)
                skip = KEY_LENGTH.size + length
                key = stored[KEY_LENGTH.size : skip]
            (timestamp,) = TIMESTAMP.unpack_from(stored, skip)
            value = decode(stored[skip + TIMESTAMP.size :])
            yield physical, Entry(decode_key(key), layout.unpack(physical[-size:]), key_bytes, value, timestamp)


def scan_key(txn: Transaction, database: Database, decode: Any, layout: struct.Struct, key: Any) -> Iterator[Entry]:
    """Yield the stored entries of one key by time."""
    key_bytes = stored_key(key)
    length = SEGMENT.size + len(key_bytes) + layout.size
    for segment in segment_prefixes(txn, database):
        for physical, entry in scan_timed(txn, database, decode, layout, segment + key_bytes):
            if len(physical) == length:
                yield entry


def segment_prefixes(txn: Transaction, database: Database) -> Iterator[bytes]:
    """Yield the key prefix of each stored segment."""
    with txn.cursor(database) as cursor:
        start = SEGMENT.pack(ENTRIES, 0)
        while cursor.set_range(start):
            prefix = cursor.key()[: SEGMENT.size]
            if prefix[:1] != ENTRIES:
                return
            yield prefix
            start = SEGMENT.pack(ENTRIES, SEGMENT.unpack(prefix)[1] + 1)


def stored_number(txn: Transaction, database: Database, name: bytes) -> int:
    """Return a number that belongs to the whole store, -1 if it is not stored."""
    stored = txn.get(name, db=database)
    return -1 if stored is None else int(TIMESTAMP.unpack(stored)[0])


def count_numbers(txn: Transaction, database: Database) -> int:
    """Return how many numbers belong to the whole store."""
    with txn.cursor(database) as cursor:
        count, has_number = 0, cursor.set_range(NUMBERS)
        while has_number and cursor.key().startswith(NUMBERS):
            count, has_number = count + 1, cursor.next()
    return count


def observed_time(txn: Transaction, database: Database) -> int:
    """Return the latest time that was written to a store."""
    return stored_number(txn, database, OBSERVED)


def stream_time(txn: Transaction, database: Database) -> int:
    """Return the latest stream time of the operators that share a store, -1 if there is none.

    Not for stores with counters, which are stored like stream times.
    """
    with txn.cursor(database) as cursor:
        has_time = cursor.set_range(STREAM_TIME)
        times = [-1]
        while has_time and cursor.key().startswith(STREAM_TIME):
            times.append(int(TIMESTAMP.unpack(cursor.value())[0]))
            has_time = cursor.next()
    return max(times)
