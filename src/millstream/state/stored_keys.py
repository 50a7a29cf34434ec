"""The logical keys of stored rows and entries, read without decoding their values."""

from __future__ import annotations

import struct
from typing import Any

from millstream.foundation.object_codec import decode_key
from millstream.state.encoding import KEY_LENGTH, is_shortened
from millstream.state.keyvalue import logical_key
from millstream.state.segments import ENTRIES, INDEX, KEY_LIMIT, SEGMENT, TIMESTAMP


def key_of_row(physical: bytes, stored: bytes) -> Any:
    """Return the key of a row of a key-value store."""
    return decode_key(logical_key(physical, stored))


def key_of_entry(physical: bytes, stored: bytes, layout: struct.Struct) -> Any:
    """Return the key of a stored entry or index entry, None for numbers that belong to the whole store."""
    if physical[:1] == INDEX:
        return decode_key(stored)
    if physical[:1] != ENTRIES:
        return None
    key_bytes = physical[SEGMENT.size : -layout.size]
    if is_shortened(key_bytes, KEY_LIMIT):
        (length,) = KEY_LENGTH.unpack_from(stored)
        key_bytes = stored[KEY_LENGTH.size : KEY_LENGTH.size + length]
    return decode_key(key_bytes)


def later_time(first: bytes, second: bytes) -> bytes:
    """Return the later of two stored times."""
    return max(first, second, key=TIMESTAMP.unpack)
