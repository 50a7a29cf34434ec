"""Keys as LMDB can keep them: long ones end in a digest, and stand whole beside the value."""

from __future__ import annotations

import hashlib
import struct

KEY_LENGTH = struct.Struct(">I")
_DIGEST = 32


def fitted(key: bytes, room: int) -> bytes:
    """Return ``key`` itself if it is shorter than ``room``, else its beginning and a digest, ``room`` bytes long."""
    if len(key) < room:
        return key
    return key[: room - _DIGEST] + hashlib.sha256(key).digest()


def is_fitted(name: bytes, room: int) -> bool:
    """Whether a name stands for a longer key."""
    return len(name) == room
