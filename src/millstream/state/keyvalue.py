"""The key-value store: one row per key, decoded at most once per batch, written in key order at its end."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

from millstream.errors import SerdeError
from millstream.native import decode_key, encode_key
from millstream.records import Headers
from millstream.serdes import Serde
from millstream.state.encoding import KEY_LENGTH, fitted, is_fitted

_ROOM = 511  # what LMDB allows
_timestamp = struct.Struct(">q")


class Row:
    """A row in memory; ``value`` None means that there is none. ``before`` is its value at the start of the batch."""

    __slots__ = ("before", "changed", "headers", "key", "timestamp", "value")

    def __init__(self, key: Any, value: Any, timestamp: int) -> None:
        self.key = key
        self.value = value
        self.timestamp = timestamp
        self.changed = False
        self.before = value
        self.headers: Headers = ()
        """Those of the last update, if it is passed on later."""


class KeyValueStore:
    """Rows of a table inside one transaction.

    Operators change rows through ``row`` and ``mark``; nothing reaches the disk before ``flush``.
    """

    def __init__(self, txn: Any, database: Any, codec: Serde, name: str = "") -> None:
        self._name = name
        self._serde = codec
        self._txn = txn
        self._database = database
        self._encode = codec.encode
        self._decode = codec.decode
        self._rows: dict[Any, Row] = {}
        self._changed: list[Row] = []

    def row(self, key: Any) -> Row:
        """Return the row of a key, an empty one if there is none; changes to it must be marked."""
        # text and numbers are their own handles; other keys are told apart by their bytes, as True == 1 == 1.0
        kind = type(key)
        handle = key if kind is str or kind is int else encode_key(key)
        row = self._rows.get(handle)
        if row is None:
            row = self._rows[handle] = self._load(key)
        return row

    def mark(self, row: Row) -> None:
        """Remember that a row has changed."""
        if not row.changed:
            row.changed = True
            self._changed.append(row)

    def take_changed(self) -> list[Row]:
        """Return the rows that changed since the last call; ``before`` of each is what it was then."""
        changed, self._changed = self._changed, []
        self._write(changed)
        return changed

    def get(self, key: Any) -> Any:
        """Return the value of a key or None."""
        return self.row(key).value

    def items(self, start: bytes = b"", stop: bytes | None = None) -> Iterator[tuple[Any, Any, int]]:
        """Yield (key, value, timestamp) in key order; bounds are encoded keys, ``stop`` is not included."""
        self.flush()
        return scan(self._txn, self._database, self._decode, start, stop)

    def __len__(self) -> int:
        self.flush()
        return int(self._txn.stat(self._database)["entries"])

    def flush(self) -> None:
        """Write all changed rows, in key order, which is what LMDB likes best."""
        self._write(self._changed)

    def write_through(self) -> None:
        """Write all changed rows once and for all; for stores whose changes nobody waits for."""
        for row in self.take_changed():
            self.settle(row)

    def _load(self, key: Any) -> Row:
        stored = self._txn.get(_physical(encode_key(key)), db=self._database)
        if stored is None:
            return Row(key, None, -1)
        try:
            value, timestamp = _read(encode_key(key), stored, self._decode)
        except Exception as error:
            raise self._problem("read", key, error) from error
        return Row(key, value, timestamp)

    def _problem(self, verb: str, key: Any, error: Exception) -> SerdeError:
        return SerdeError(
            f"row {key!r:.60} of table {self._name!r} cannot be {verb} as {self._serde.name}: {error}",
            hint="say what the table holds with value=, for example value=MyType",
            table=self._name,
        )

    def _write(self, rows: list[Row]) -> None:
        encode, pack = self._encode, _timestamp.pack
        puts: list[tuple[bytes, bytes]] = []
        for row in rows:
            key = encode_key(row.key)
            if row.value is None:
                self._txn.delete(_physical(key), db=self._database)
                continue
            try:
                data = pack(row.timestamp) + encode(row.value)
            except Exception as error:
                raise self._problem("written", row.key, error) from error
            puts.append((key, data) if len(key) < _ROOM else (_physical(key), KEY_LENGTH.pack(len(key)) + key + data))
        if puts:
            puts.sort()
            with self._txn.cursor(self._database) as cursor:
                cursor.putmulti(puts)

    def settle(self, row: Row) -> None:
        """Start a new round of changes for a row that has been written and passed on."""
        row.changed = False
        row.before = row.value
        row.headers = ()


def scan(
    txn: Any, database: Any, decode: Any, start: bytes = b"", stop: bytes | None = None
) -> Iterator[tuple[Any, Any, int]]:
    """Yield (key, value, timestamp) of stored rows in key order."""
    with txn.cursor(database) as cursor:
        if not cursor.set_range(start):
            return
        for physical, stored in cursor:
            if stop is not None and physical >= stop:
                return
            key = logical_key(physical, stored)
            yield (decode_key(key), *_read(key, stored, decode))


def fetch(txn: Any, database: Any, decode: Any, key: Any) -> tuple[Any, int] | None:
    """Return value and timestamp of a stored row."""
    encoded = encode_key(key)
    stored = txn.get(_physical(encoded), db=database)
    return None if stored is None else _read(encoded, stored, decode)


def _physical(key: bytes) -> bytes:
    """Return the key under which LMDB keeps a row."""
    return fitted(key, _ROOM)


def logical_key(physical: bytes, stored: bytes) -> bytes:
    """Return the encoded key of a stored row."""
    if not is_fitted(physical, _ROOM):
        return physical
    (length,) = KEY_LENGTH.unpack_from(stored)
    return stored[KEY_LENGTH.size : KEY_LENGTH.size + length]


def _read(key: bytes, stored: bytes, decode: Any) -> tuple[Any, int]:
    skip = 0 if len(key) < _ROOM else KEY_LENGTH.size + len(key)
    (timestamp,) = _timestamp.unpack_from(stored, skip)
    return decode(stored[skip + _timestamp.size :]), timestamp
