"""Keys that fit into LMDB: a long key is cut and ends in a digest, and the full key is stored with the value."""

from __future__ import annotations

import hashlib
import struct

KEY_LENGTH = struct.Struct(">I")
_DIGEST = 32


def shorten_key(key: bytes, limit: int) -> bytes:
    """Return ``key`` if it is shorter than ``limit``, otherwise its prefix and a digest, ``limit`` bytes in total."""
    if len(key) < limit:
        return key
    return key[: limit - _DIGEST] + hashlib.sha256(key).digest()


def is_shortened(key: bytes, limit: int) -> bool:
    """Whether a key is the shortened form of a longer one."""
    return len(key) == limit
