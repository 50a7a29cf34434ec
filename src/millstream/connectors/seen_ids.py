"""The ids of the last messages of a source, in its position: a message that comes again is dropped."""

from __future__ import annotations

import base64
import hashlib

import msgspec

from millstream.errors import DefinitionError

_BYTES = 12
"""Of a hash: two of a billion messages have the same one with a probability of 10 to the power of -11."""
MAX_REMEMBERED = 50_000
"""On Kafka a position is one record of the journal."""


class StoredIds(msgspec.Struct, frozen=True):
    """Ids as a position holds them: their hashes, oldest first, as base64."""

    ids: str = ""


class SeenIds:
    """The last ids, as many as it was made for.

    >>> seen = SeenIds(2)
    >>> [seen.add(id) for id in ("a", "b", "a", "c", "a")]
    [True, True, False, True, True]
    """

    def __init__(self, most: int, stored: StoredIds | None = None) -> None:
        if not 0 <= most <= MAX_REMEMBERED:
            raise DefinitionError(f"remember={most} is not valid", hint=f"use 0 to {MAX_REMEMBERED}")
        self._most = most
        data = base64.b64decode(stored.ids) if stored is not None else b""
        self._hashes = dict.fromkeys(data[at : at + _BYTES] for at in range(0, len(data), _BYTES))
        self._forget()

    def __contains__(self, id: str) -> bool:
        return _hash(id) in self._hashes

    def add(self, id: str) -> bool:
        """Remember an id, and return whether it is new."""
        hashed = _hash(id)
        if hashed in self._hashes:
            return False
        self._hashes[hashed] = None
        self._forget()
        return True

    def stored(self) -> StoredIds:
        """Return the ids for a position."""
        return StoredIds(base64.b64encode(b"".join(self._hashes)).decode())

    def _forget(self) -> None:
        while len(self._hashes) > self._most:
            del self._hashes[next(iter(self._hashes))]


def _hash(id: str) -> bytes:
    return hashlib.blake2b(id.encode("utf-8", "surrogatepass"), digest_size=_BYTES).digest()
