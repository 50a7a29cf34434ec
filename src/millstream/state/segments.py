"""How entries by key and time lie on the disk, and how they are read from there.

They lie in segments of time, so that what has expired goes at one stroke, and within a segment by key and time. Beside
them there may be an index by time and key, and there are some numbers that belong to the store as a whole.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

from millstream.foundation.object_codec import decode_key, encode_key
from millstream.state.encoding import KEY_LENGTH, fitted, is_fitted
from millstream.state.entries import Entry
from millstream.windows import SessionWindows, Windows

ENTRIES, INDEX = b"d", b"t"
SEGMENT = struct.Struct(">cQ")
STAMP = struct.Struct(">q")
ONE_TIME, TWO_TIMES = struct.Struct(">Q"), struct.Struct(">QQ")
LONGEST_NAME = 400
OBSERVED, EMITTED, STREAM_TIME = b"m.observed", b"m.emitted", b"m.stream-time."


def layout_of(windows: Windows) -> struct.Struct:
    """Return how the places of a kind of windows are packed: by start, sessions by end and start."""
    return TWO_TIMES if isinstance(windows, SessionWindows) else ONE_TIME


def name_of(key: Any) -> bytes:
    """Return a key as it stands in keys of the disk."""
    encoded = encode_key(key)
    return encoded if len(encoded) < LONGEST_NAME else fitted(encoded, LONGEST_NAME)


def beside(key: Any) -> bytes:
    """Return what is stored before an entry whose key is too long to stand in that of the disk."""
    encoded = encode_key(key)
    return KEY_LENGTH.pack(len(encoded)) + encoded


def scan_timed(
    txn: Any, database: Any, decode: Any, layout: struct.Struct, prefix: bytes = ENTRIES
) -> Iterator[tuple[bytes, Entry]]:
    """Yield stored entries, with the bytes of their keys, by segment, key and time."""
    size = layout.size
    with txn.cursor(database) as cursor:
        if not cursor.set_range(prefix):
            return
        for physical, stored in cursor:
            if not physical.startswith(prefix):
                return
            name = key = physical[SEGMENT.size : -size]
            skip = 0
            if is_fitted(name, LONGEST_NAME):
                (length,) = KEY_LENGTH.unpack_from(stored)
                skip = KEY_LENGTH.size + length
                key = stored[KEY_LENGTH.size : skip]
            (timestamp,) = STAMP.unpack_from(stored, skip)
            value = decode(stored[skip + STAMP.size :])
            yield physical, Entry(decode_key(key), layout.unpack(physical[-size:]), name, value, timestamp)


def scan_key(txn: Any, database: Any, decode: Any, layout: struct.Struct, key: Any) -> Iterator[Entry]:
    """Yield the stored entries of one key by time."""
    name = name_of(key)
    length = SEGMENT.size + len(name) + layout.size
    for segment in stored_segments(txn, database):
        for physical, entry in scan_timed(txn, database, decode, layout, segment + name):
            if len(physical) == length:
                yield entry


def stored_segments(txn: Any, database: Any) -> Iterator[bytes]:
    """Yield how the keys of each segment on the disk begin."""
    with txn.cursor(database) as cursor:
        place = SEGMENT.pack(ENTRIES, 0)
        while cursor.set_range(place):
            found = cursor.key()[: SEGMENT.size]
            if found[:1] != ENTRIES:
                return
            yield found
            place = SEGMENT.pack(ENTRIES, SEGMENT.unpack(found)[1] + 1)


def stored_number(txn: Any, database: Any, name: bytes) -> int:
    """Return a number of the whole store, -1 if there is none."""
    stored = txn.get(name, db=database)
    return -1 if stored is None else int(STAMP.unpack(stored)[0])


def observed_time(txn: Any, database: Any) -> int:
    """Return the latest time that was written to a store."""
    return stored_number(txn, database, OBSERVED)


def clock_time(txn: Any, database: Any) -> int:
    """Return the latest stream time of the operators that share a store, by which late is decided; -1 for none."""
    with txn.cursor(database) as cursor:
        found = cursor.set_range(STREAM_TIME)
        times = [-1]
        while found and cursor.key().startswith(STREAM_TIME):
            times.append(int(STAMP.unpack(cursor.value())[0]))
            found = cursor.next()
    return max(times)
