"""Transactions that store a checksum with each value, so that a flipped bit is an error and never a value.

A stored value ends with the CRC-32 of its key and itself, little-endian. The CRC-32 of key and stored value is then
always the same number, which makes the check one comparison. The key is included, because a value that is found under
another key is wrong as well. docs/adr/0033-checksums.md has the costs.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from operator import add, itemgetter
from pathlib import Path
from typing import Any, Self, overload
from zlib import crc32

from millstream.foundation.damage import damaged
from millstream.foundation.transactions import Cursor, Database

FORMAT_KEY = b"millstream-format"
UNCHECKED_FORMAT = b"1"
"""Environments of this format stay as they are: their values have no checksums."""
DATABASES_KEY = b"millstream-databases"
CHECKSUM_BYTES = 4
_PLAIN = " plain"
RESIDUE = 0x2144DF1C
"""The CRC-32 of any data that ends with its own CRC-32."""

Row = tuple[bytes, bytes]
_key_of, _value_of = itemgetter(0), itemgetter(1)
_pack_checksum = struct.Struct("<I").pack


@overload
def with_checksum(key: bytes, value: bytes) -> bytes: ...
@overload
def with_checksum(key: bytes, value: bytearray) -> bytearray: ...
def with_checksum(key: bytes, value: bytes | bytearray) -> bytes | bytearray:
    """Return a value as it is stored; a bytearray is extended in place, which saves a copy of large values.

    >>> without_checksum(b"key", with_checksum(b"key", b"value"), Path("state"))
    b'value'
    """
    value += crc32(value, crc32(key)).to_bytes(CHECKSUM_BYTES, "little")  # of bytes this makes new ones
    return value


def without_checksum(key: bytes, stored: bytes, directory: Path) -> bytes:
    """Return the value of what is stored under a key; raise ``DamagedError`` if it does not match its checksum."""
    if crc32(stored, crc32(key)) != RESIDUE:
        raise damaged(directory / "data.mdb", f"the entry {bytes(key)!r:.80} does not match its checksum")
    return stored[:-CHECKSUM_BYTES]


def pack_databases(databases: Mapping[str, bool]) -> bytes:
    """Return the list of an environment's databases as it is stored; True means that values have no checksums."""
    lines = (f"{name}{_PLAIN if is_plain else ''}" for name, is_plain in databases.items())
    return with_checksum(DATABASES_KEY, "\n".join(lines).encode())


def unpack_databases(stored: bytes | None, directory: Path) -> dict[str, bool]:
    """Return what ``pack_databases`` packed, nothing if there is no list."""
    if stored is None:
        return {}
    lines = without_checksum(DATABASES_KEY, stored, directory).decode().splitlines()
    return {line.removesuffix(_PLAIN): line.endswith(_PLAIN) for line in lines}


def _without_checksums(rows: list[Row], directory: Path) -> list[Row]:
    """Check many rows; the maps never leave C, which halves the time of a row."""
    residues = set(map(crc32, map(_value_of, rows), map(crc32, map(_key_of, rows))))
    if not residues <= {RESIDUE}:
        for key, stored in rows:
            without_checksum(key, stored, directory)
    end = -CHECKSUM_BYTES
    return [(key, stored[:end]) for key, stored in rows]


def _with_checksums(rows: list[Row]) -> Iterator[Row]:
    values = list(map(_value_of, rows))
    checksums = map(crc32, values, map(crc32, map(_key_of, rows)))
    return zip(map(_key_of, rows), map(add, values, map(_pack_checksum, checksums)), strict=True)


class CheckedTransaction:
    """A transaction whose values have checksums, except those of ``plain`` databases."""

    __slots__ = ("_get", "_plain", "_put", "delete", "directory", "drop", "stat", "unchecked")

    def __init__(self, txn: Any, plain: Collection[Database], directory: Path) -> None:
        self.unchecked = txn
        """The transaction of LMDB."""
        self.directory = directory
        self._plain = plain
        self._get, self._put = txn.get, txn.put
        self.delete: Callable[..., bool] = txn.delete
        self.drop: Callable[..., None] = txn.drop
        self.stat: Callable[..., Any] = txn.stat

    def get(self, key: bytes, default: Any = None, *, db: Database | None = None) -> Any:
        stored = self._get(key, db=db)
        if stored is None:
            return default
        if db in self._plain:
            return stored
        if crc32(stored, crc32(key)) != RESIDUE:
            without_checksum(key, stored, self.directory)
        return stored[:-CHECKSUM_BYTES]

    def put(self, key: bytes, value: bytes | bytearray, *, db: Database | None = None) -> bool:
        return bool(self._put(key, value if db in self._plain else with_checksum(key, value), db=db))

    def cursor(self, db: Database) -> Cursor:
        cursor: Cursor = self.unchecked.cursor(db=db)
        return cursor if db in self._plain else CheckedCursor(cursor, self.directory)


class CheckedCursor:
    """A cursor of a checked transaction."""

    __slots__ = ("_cursor", "_directory", "close", "delete", "first", "key", "last", "next", "prev", "set_range")

    def __init__(self, cursor: Cursor, directory: Path) -> None:
        self._cursor = cursor
        self._directory = directory
        self.key, self.set_range, self.delete, self.close = cursor.key, cursor.set_range, cursor.delete, cursor.close
        self.first, self.last, self.next, self.prev = cursor.first, cursor.last, cursor.next, cursor.prev

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def value(self) -> bytes:
        return self.item()[1]

    def item(self) -> Row:
        key, stored = self._cursor.item()
        if crc32(stored, crc32(key)) != RESIDUE:
            without_checksum(key, stored, self._directory)
        return key, stored[:-CHECKSUM_BYTES]

    def iternext(self, *, values: Any = True) -> Iterator[Any]:
        return iter(self) if values else self._cursor.iternext(values=False)

    def __iter__(self) -> Iterator[Row]:
        directory = self._directory
        return ((key, without_checksum(key, stored, directory)) for key, stored in self._cursor)

    def getmulti(self, keys: Iterable[bytes]) -> list[Row]:
        return _without_checksums(self._cursor.getmulti(keys), self._directory)

    def putmulti(self, items: Iterable[Row]) -> tuple[int, int]:
        return self._cursor.putmulti(_with_checksums(list(items)))
