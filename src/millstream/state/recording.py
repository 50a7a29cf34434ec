"""A transaction that records its writes: the state delta of a batch."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Self

import msgspec

from millstream.foundation.content import TASK_STATE
from millstream.foundation.storage import open_environment
from millstream.foundation.transactions import Cursor, Database, Transaction

Changes = dict[tuple[str, bytes], bytes | None]
"""The last value written by database and key, None if the key was deleted."""

Rows = list[tuple[str, bytes, bytes | None]]
"""The same as a list, as it is stored."""

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Rows).decode


def rows_of(changes: Changes) -> Rows:
    """Return changes as they are stored."""
    return [(database, key, value) for (database, key), value in changes.items()]


def pack_changes(changes: Changes) -> bytes:
    """Return changes as bytes."""
    return _encode(rows_of(changes))


def unpack_changes(data: bytes) -> Rows:
    """Return what ``pack_changes`` packed."""
    return _decode(data)


def write_rows(path: Path, rows: Rows, *, sync: bool = True) -> None:
    """Apply recorded changes to the environment at ``path``, in one commit."""
    databases = tuple(dict.fromkeys(database for database, _, _ in rows))
    environment = open_environment(path, databases, sync=sync, content=TASK_STATE)

    environment.update(lambda txn: apply_rows(txn, environment.databases, rows))


def apply_rows(txn: Transaction, databases: Mapping[str, Any], rows: Rows) -> None:
    """Write rows by key, so that a page is changed once; of several rows with one key, the last one counts."""
    latest: dict[str, dict[bytes, bytes | None]] = defaultdict(dict)
    for database, key, value in rows:
        latest[database][key] = value
    for database, values in latest.items():
        with txn.cursor(databases[database]) as cursor:
            cursor.putmulti(sorted((key, value) for key, value in values.items() if value is not None))
        for key, value in values.items():
            if value is None:
                txn.delete(key, db=databases[database])


class RecordedTransaction:
    """An LMDB write transaction as stores use it; reads are passed through."""

    __slots__ = ("_names", "_txn", "changes", "get", "stat")

    def __init__(self, txn: Transaction, databases: Mapping[str, Any]) -> None:
        self._txn = txn
        self._names = {id(handle): name for name, handle in databases.items()}
        self.changes: Changes = {}
        self.get = txn.get
        self.stat = txn.stat

    def put(self, key: bytes, value: bytes, *, db: Database) -> bool:
        self.changes[self._names[id(db)], bytes(key)] = bytes(value)
        return bool(self._txn.put(key, value, db=db))

    def delete(self, key: bytes, *, db: Database) -> bool:
        self.changes[self._names[id(db)], bytes(key)] = None
        return bool(self._txn.delete(key, db=db))

    def cursor(self, db: Database) -> RecordedCursor:
        return RecordedCursor(self._txn.cursor(db), self._names[id(db)], self.changes)


class RecordedCursor:
    """A cursor of a recorded transaction."""

    __slots__ = (
        "_changes", "_cursor", "_name", "getmulti", "item", "key", "last", "next", "prev", "set_range", "value",
    )  # fmt: skip

    def __init__(self, cursor: Cursor, name: str, changes: Changes) -> None:
        self._cursor = cursor
        self._name = name
        self._changes = changes
        self.key, self.value, self.item, self.set_range = cursor.key, cursor.value, cursor.item, cursor.set_range
        self.next, self.prev, self.last, self.getmulti = cursor.next, cursor.prev, cursor.last, cursor.getmulti

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._cursor.close()

    def first(self) -> bool:
        return self._cursor.first()

    def iternext(self, *, values: Any = True) -> Iterator[Any]:
        return self._cursor.iternext(values=values)

    def __iter__(self) -> Iterator[tuple[bytes, bytes]]:
        return iter(self._cursor)

    def putmulti(self, items: Iterable[tuple[bytes, bytes]]) -> tuple[int, int]:
        items = list(items)
        self._changes.update({(self._name, bytes(key)): bytes(value) for key, value in items})
        return self._cursor.putmulti(items)

    def delete(self) -> bool:
        self._changes[self._name, bytes(self._cursor.key())] = None
        return bool(self._cursor.delete())
