"""Whose row is it: the keys of what lies in a store, found without decoding values."""

from __future__ import annotations

import struct
from typing import Any

from millstream.foundation.object_codec import decode_key
from millstream.state.encoding import KEY_LENGTH, is_fitted
from millstream.state.keyvalue import logical_key
from millstream.state.segments import ENTRIES, INDEX, LONGEST_NAME, SEGMENT, STAMP


def key_of_row(physical: bytes, stored: bytes) -> Any:
    """Return the key of a row of a key-value store."""
    return decode_key(logical_key(physical, stored))


def key_of_entry(physical: bytes, stored: bytes, layout: struct.Struct) -> Any:
    """Return the key of a stored entry or of its line in the index, or None for what belongs to the whole store."""
    if physical[:1] == INDEX:
        return decode_key(stored)
    if physical[:1] != ENTRIES:
        return None
    name = physical[SEGMENT.size : -layout.size]
    if is_fitted(name, LONGEST_NAME):
        (length,) = KEY_LENGTH.unpack_from(stored)
        name = stored[KEY_LENGTH.size : KEY_LENGTH.size + length]
    return decode_key(name)


def later(one: bytes, other: bytes) -> bytes:
    """Return the later of two times that belong to whole stores."""
    return max(one, other, key=STAMP.unpack)
