"""The key-value store: one row per key, decoded at most once per batch and written in key order at its end."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from operator import attrgetter
from typing import Any

import msgspec

from millstream.errors import SerdeError
from millstream.foundation.object_codec import decode_key, encode_key, hashable_keys, ordered_keys
from millstream.foundation.text import error_text, shown
from millstream.foundation.transactions import Database, Transaction
from millstream.records import Headers
from millstream.serdes import Serde
from millstream.state.encoding import KEY_LENGTH, is_shortened, shorten_key

_KEY_LIMIT = 511  # the longest key that LMDB allows
_timestamp = struct.Struct(">q")
_key_bytes_of = attrgetter("key_bytes")


class StoredRow(msgspec.Struct, eq=False, gc=False):
    """A row in memory; ``value`` None means that there is no row.

    It is a Struct without garbage collection because a batch creates tens of thousands of rows.
    """

    key: Any
    key_bytes: bytes
    """The encoded key."""
    value: Any
    timestamp: int
    before: Any
    """The value before the changes that have not been forwarded yet."""
    changed: bool = False
    headers: Headers = ()
    """The headers of the last update, if it is forwarded later."""


class KeyValueStore:
    """Rows of a table inside one transaction.

    Operators change rows through ``row`` and ``mark``; nothing is written before ``flush``.
    """

    def __init__(self, txn: Transaction, database: Database, codec: Serde, name: str = "") -> None:
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
        # text and integers are used as they are; other keys as bytes, because True == 1 == 1.0
        kind = type(key)
        row = self._rows.get(key if kind is str or kind is int else encode_key(key))
        return self._load(key) if row is None else row

    def rows(self, keys: list[Any]) -> list[StoredRow]:
        """Return the rows of many keys; rows that are not in memory are read in one pass, which is faster."""
        hashables = hashable_keys(keys)
        missing = set(hashables).difference(self._rows)
        if missing:
            self._load_all(missing)
        return list(map(self._rows.__getitem__, hashables))

    def find(self, key: Any) -> tuple[Any, int]:
        """Return value and timestamp of a key, (None, -1) if there is no row."""
        kind = type(key)
        row = self._rows.get(key if kind is str or kind is int else encode_key(key))
        if row is None:
            row = self._load(key)
        return (None, -1) if row.value is None else (row.value, row.timestamp)

    def mark(self, row: StoredRow) -> None:
        """Mark a row as changed."""
        if not row.changed:
            row.changed = True
            self._changed.append(row)

    def take_changed(self) -> list[StoredRow]:
        """Return the rows that changed since the last call; ``before`` is the value at that time."""
        changed, self._changed = self._changed, []
        self._write(changed)
        return changed

    def get(self, key: Any) -> Any:
        """Return the value of a key, or None."""
        return self.row(key).value

    def items(self, start: bytes = b"", stop: bytes | None = None) -> Iterator[tuple[Any, Any, int]]:
        """Yield (key, value, timestamp) in key order; bounds are encoded keys, ``stop`` is not included."""
        self.flush()
        return scan(self._txn, self._database, self._decode, start, stop)

    def __len__(self) -> int:
        self.flush()
        return int(self._txn.stat(self._database)["entries"])

    def flush(self) -> None:
        """Write all changed rows in key order, the order in which LMDB writes fastest."""
        self._write(self._changed)

    def release(self) -> None:
        """Release the memory; all changes must have been written."""
        self._rows.clear()
        self._changed.clear()

    def write_through(self) -> None:
        """Write all changed rows; for stores whose changes are not forwarded."""
        self.reset_changes(self.take_changed())

    def _load(self, key: Any) -> StoredRow:
        """Read a row into memory."""
        key_bytes, value, timestamp = encode_key(key), None, -1
        stored = self._txn.get(key_bytes if len(key_bytes) < _KEY_LIMIT else _physical(key_bytes), db=self._database)
        if stored is not None:
            try:
                value, timestamp = _read(key_bytes, stored, self._decode)
            except Exception as error:
                raise self._serde_error("read", key, error) from error
        row = StoredRow(key, key_bytes, value, timestamp, value)
        self._rows[key if type(key) is str or type(key) is int else key_bytes] = row
        return row

    def _load_all(self, hashables: set[Any]) -> None:
        """Read rows into memory in key order, so that one pass over the pages finds them all."""
        handles, key_bytes = ordered_keys(hashables)
        if any(len(encoded) >= _KEY_LIMIT for encoded in key_bytes):
            for handle, encoded in zip(handles, key_bytes, strict=True):
                self._load(_key_of(handle, encoded))
            return
        with self._txn.cursor(self._database) as cursor:
            pairs = cursor.getmulti(key_bytes)
        stored_rows: Iterable[bytes | None] = (stored for _, stored in pairs)
        if len(pairs) < len(key_bytes):  # keys without a row
            stored_rows = map(dict(pairs).get, key_bytes)
        rows, decode, unpack, skip = self._rows, self._decode, _timestamp.unpack_from, _timestamp.size
        for handle, encoded, stored in zip(handles, key_bytes, stored_rows, strict=True):
            key = decode_key(encoded) if type(handle) is bytes else handle
            if stored is None:
                rows[handle] = StoredRow(key, encoded, None, -1, None)
                continue
            try:
                value = decode(stored[skip:])
            except Exception as error:
                raise self._serde_error("read", key, error) from error
            rows[handle] = StoredRow(key, encoded, value, unpack(stored)[0], value)

    def _serde_error(self, verb: str, key: Any, error: Exception) -> SerdeError:
        return SerdeError(
            f"row {shown(key):.60} of table {self._name!r} cannot be {verb} as {self._serde.name}: {error_text(error)}",
            hint="declare the type of the table's values with value=, for example value=MyType",
            table=self._name,
        )

    def _write(self, rows: list[StoredRow]) -> None:
        encode, pack = self._encode, _timestamp.pack
        puts: list[tuple[bytes, bytes]] = []
        for row in sorted(rows, key=_key_bytes_of):
            key_bytes = row.key_bytes
            if row.value is None:
                self._txn.delete(_physical(key_bytes), db=self._database)
                continue
            try:
                data = pack(row.timestamp) + encode(row.value)
            except Exception as error:
                raise self._serde_error("written", row.key, error) from error
            if len(key_bytes) >= _KEY_LIMIT:
                key_bytes, data = _physical(key_bytes), KEY_LENGTH.pack(len(key_bytes)) + key_bytes + data
            puts.append((key_bytes, data))
        if puts:
            with self._txn.cursor(self._database) as cursor:
                cursor.putmulti(puts)

    def reset_changes(self, rows: list[StoredRow]) -> None:
        """Mark rows as unchanged, after they were written and forwarded."""
        for row in rows:
            row.changed = False
            row.before = row.value
            row.headers = ()


def scan(
    txn: Transaction, database: Database, decode: Any, start: bytes = b"", stop: bytes | None = None
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


def fetch(txn: Transaction, database: Database, decode: Any, key: Any) -> tuple[Any, int] | None:
    """Return value and timestamp of a stored row."""
    encoded = encode_key(key)
    stored = txn.get(_physical(encoded), db=database)
    return None if stored is None else _read(encoded, stored, decode)


def _key_of(handle: Any, encoded: bytes) -> Any:
    """Return the key of a handle, under which a row is kept in memory."""
    return decode_key(encoded) if type(handle) is bytes else handle


def _physical(key: bytes) -> bytes:
    """Return the LMDB key of a row."""
    return shorten_key(key, _KEY_LIMIT)


def logical_key(physical: bytes, stored: bytes) -> bytes:
    """Return the encoded key of a stored row."""
    if not is_shortened(physical, _KEY_LIMIT):
        return physical
    (length,) = KEY_LENGTH.unpack_from(stored)
    return stored[KEY_LENGTH.size : KEY_LENGTH.size + length]


def _read(key: bytes, stored: bytes, decode: Any) -> tuple[Any, int]:
    skip = 0 if len(key) < _KEY_LIMIT else KEY_LENGTH.size + len(key)
    (timestamp,) = _timestamp.unpack_from(stored, skip)
    return decode(stored[skip + _timestamp.size :]), timestamp
