"""The key-value store: one row per key, decoded at most once per batch, written in key order at its end."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from operator import attrgetter
from typing import Any

from millstream.errors import SerdeError
from millstream.native import decode_key, encode_key
from millstream.records import Headers
from millstream.serdes import Serde
from millstream.state.encoding import KEY_LENGTH, fitted, is_fitted

_ROOM = 511  # what LMDB allows
_timestamp = struct.Struct(">q")
_name_of = attrgetter("name")


class Row:
    """A row in memory; ``value`` None means that there is none. ``before`` is its value at the start of the batch.

    ``name`` is the encoded key.
    """

    __slots__ = ("before", "changed", "headers", "key", "name", "timestamp", "value")

    def __init__(self, key: Any, name: bytes, value: Any, timestamp: int) -> None:
        self.key = key
        self.name = name
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
        row = self._rows.get(key if kind is str or kind is int else encode_key(key))
        return self._load(key) if row is None else row

    def find(self, key: Any) -> tuple[Any, int]:
        """Return value and timestamp of a key; the value of a missing row is None and its timestamp -1."""
        kind = type(key)
        row = self._rows.get(key if kind is str or kind is int else encode_key(key))
        if row is None:
            row = self._load(key)
        return row.value, row.timestamp

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

    def let_go(self) -> None:
        """Forget what is in memory, when all has been written: it is on the disk from now on."""
        self._rows.clear()
        self._changed.clear()

    def write_through(self) -> None:
        """Write all changed rows once and for all; for stores whose changes nobody waits for."""
        for row in self.take_changed():
            self.settle(row)

    def _load(self, key: Any) -> Row:
        """Take a row into memory."""
        name, value, timestamp = encode_key(key), None, -1
        stored = self._txn.get(name if len(name) < _ROOM else _physical(name), db=self._database)
        if stored is not None:
            try:
                value, timestamp = _read(name, stored, self._decode)
            except Exception as error:
                raise self._problem("read", key, error) from error
        row = Row(key, name, value, timestamp)
        self._rows[key if type(key) is str or type(key) is int else name] = row
        return row

    def _problem(self, verb: str, key: Any, error: Exception) -> SerdeError:
        return SerdeError(
            f"row {key!r:.60} of table {self._name!r} cannot be {verb} as {self._serde.name}: {error}",
            hint="say what the table holds with value=, for example value=MyType",
            table=self._name,
        )

    def _write(self, rows: list[Row]) -> None:
        encode, pack = self._encode, _timestamp.pack
        puts: list[tuple[bytes, bytes]] = []
        for row in sorted(rows, key=_name_of):
            name = row.name
            if row.value is None:
                self._txn.delete(_physical(name), db=self._database)
                continue
            try:
                data = pack(row.timestamp) + encode(row.value)
            except Exception as error:
                raise self._problem("written", row.key, error) from error
            if len(name) >= _ROOM:
                name, data = _physical(name), KEY_LENGTH.pack(len(name)) + name + data
            puts.append((name, data))
        if puts:
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
