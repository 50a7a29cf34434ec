"""The key-value store: one row per key, decoded at most once per batch, written in key order at its end."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from operator import attrgetter
from typing import Any

import msgspec

from millstream.errors import SerdeError
from millstream.foundation.object_codec import decode_key, encode_key, hashable_keys
from millstream.records import Headers
from millstream.serdes import Serde
from millstream.state.encoding import KEY_LENGTH, fitted, is_fitted

_ROOM = 511  # what LMDB allows
_timestamp = struct.Struct(">q")
_name_of = attrgetter("name")


class StoredRow(msgspec.Struct, eq=False, gc=False):
    """A row in memory; ``value`` None means that there is none.

    It is a Struct without garbage collection because batches make them by the ten thousand.
    """

    key: Any
    name: bytes
    """The encoded key."""
    value: Any
    timestamp: int
    before: Any
    """Its value at the start of a round of changes."""
    changed: bool = False
    headers: Headers = ()
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
        self._rows: dict[Any, StoredRow] = {}
        self._changed: list[StoredRow] = []

    def row(self, key: Any) -> StoredRow:
        """Return the row of a key, an empty one if there is none; changes to it must be marked."""
        # text and numbers are their own handles; other keys are told apart by their bytes, as True == 1 == 1.0
        kind = type(key)
        row = self._rows.get(key if kind is str or kind is int else encode_key(key))
        return self._load(key) if row is None else row

    def rows(self, keys: list[Any]) -> list[StoredRow]:
        """Return the rows of many keys; those that are not in memory yet are read at one go, which is quicker."""
        handles = hashable_keys(keys)
        missing = set(handles).difference(self._rows)
        if missing:
            self._load_all(missing)
        return list(map(self._rows.__getitem__, handles))

    def find(self, key: Any) -> tuple[Any, int]:
        """Return value and timestamp of a key; the value of a missing row is None and its timestamp -1."""
        kind = type(key)
        row = self._rows.get(key if kind is str or kind is int else encode_key(key))
        if row is None:
            row = self._load(key)
        return (None, -1) if row.value is None else (row.value, row.timestamp)

    def mark(self, row: StoredRow) -> None:
        """Remember that a row has changed."""
        if not row.changed:
            row.changed = True
            self._changed.append(row)

    def take_changed(self) -> list[StoredRow]:
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

    def release(self) -> None:
        """Forget what is in memory, when all has been written: it is on the disk from now on."""
        self._rows.clear()
        self._changed.clear()

    def write_through(self) -> None:
        """Write all changed rows once and for all; for stores whose changes nobody waits for."""
        self.settle(self.take_changed())

    def _load(self, key: Any) -> StoredRow:
        """Take a row into memory."""
        name, value, timestamp = encode_key(key), None, -1
        stored = self._txn.get(name if len(name) < _ROOM else _physical(name), db=self._database)
        if stored is not None:
            try:
                value, timestamp = _read(name, stored, self._decode)
            except Exception as error:
                raise self._problem("read", key, error) from error
        row = StoredRow(key, name, value, timestamp, value)
        self._rows[key if type(key) is str or type(key) is int else name] = row
        return row

    def _load_all(self, handles: Iterable[Any]) -> None:
        names = {handle if type(handle) is bytes else encode_key(handle): handle for handle in handles}
        rows, decode, unpack, skip = self._rows, self._decode, _timestamp.unpack_from, _timestamp.size
        with self._txn.cursor(self._database) as cursor:
            found = cursor.getmulti(sorted(name for name in names if len(name) < _ROOM))
        for name, stored in found:
            handle = names.pop(name)
            key = decode_key(name) if type(handle) is bytes else handle
            try:
                value = decode(stored[skip:])
            except Exception as error:
                raise self._problem("read", key, error) from error
            rows[handle] = StoredRow(key, name, value, unpack(stored)[0], value)
        for name, handle in names.items():
            key = decode_key(name) if type(handle) is bytes else handle
            if len(name) < _ROOM:
                rows[handle] = StoredRow(key, name, None, -1, None)
            else:
                self._load(key)

    def _problem(self, verb: str, key: Any, error: Exception) -> SerdeError:
        return SerdeError(
            f"row {key!r:.60} of table {self._name!r} cannot be {verb} as {self._serde.name}: {error}",
            hint="say what the table holds with value=, for example value=MyType",
            table=self._name,
        )

    def _write(self, rows: list[StoredRow]) -> None:
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

    def settle(self, rows: list[StoredRow]) -> None:
        """Start a new round of changes for rows that have been written and passed on."""
        for row in rows:
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
