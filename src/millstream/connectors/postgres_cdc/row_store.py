"""The last row of each key: completes what the server does not send, and knows what a TRUNCATE removed.

Its changes must count exactly if the intake that they belong to does. They are staged under a number before the intake
is returned, and the position of the intake has that number. Opening the store with a position applies what was staged
up to its number and discards the rest, so that a crash at any time leaves rows and position in step.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from pathlib import Path

import msgspec

from millstream.connectors.change_data.changes import StoredRow
from millstream.errors import DamagedError
from millstream.foundation.content import SOURCE_ROWS
from millstream.foundation.databases import clear_databases
from millstream.foundation.storage import open_environment
from millstream.foundation.transactions import WriteTransaction

_MAX_KEY_BYTES = 400  # LMDB allows 511
_TABLE_BYTES = 8
_ID, _APPLIED = b"id", b"applied"


class _KeyedRow(msgspec.Struct, array_like=True):
    key: bytes
    row: StoredRow


_encode = msgspec.msgpack.Encoder().encode
_decode_entry = msgspec.msgpack.Decoder(_KeyedRow).decode
_decode_changes = msgspec.msgpack.Decoder(list[tuple[bytes, bytes | None]]).decode


class RowStore:
    """Rows by table and key, in an LMDB environment of their own."""

    def __init__(self, directory: Path) -> None:
        self._environment = open_environment(directory, ("rows", "staged", "facts"), content=SOURCE_ROWS)
        self._rows, self._staged, self._facts = (
            self._environment.databases[name] for name in ("rows", "staged", "facts")
        )
        self._changes: dict[bytes, bytes | None] = {}
        self._unapplied: dict[bytes, bytes | None] = {}
        self._cached: dict[bytes, bytes | None] = {}
        self.staged = 0
        self.id = ""

    def recover(self, id: str, number: int) -> bool:
        """Bring the rows to the state of a position; False if they are lost, and the store is empty now."""
        with self._environment.read() as txn:
            stored, applied = txn.get(_ID, db=self._facts), int(txn.get(_APPLIED, b"0", db=self._facts))
        self.id = (stored or b"").decode()
        if id and self.id == id and applied <= number and self._can_apply(applied, number):
            self.staged = number
            self._environment.update(lambda txn: self._apply(txn, number))
            self._environment.update(self._discard)
            return True
        clear_databases(self._environment)
        self.id, self.staged = secrets.token_hex(8), 0
        self._environment.update(lambda txn: txn.put(_ID, self.id.encode(), db=self._facts))
        return False

    def _can_apply(self, applied: int, number: int) -> bool:
        with self._environment.read() as txn:
            return all(txn.get(_number(n), db=self._staged) is not None for n in range(applied + 1, number + 1))

    def prefetch(self, table: str, keys: Iterable[bytes]) -> None:
        """Read rows that are needed soon, in one transaction."""
        wanted = {_stored_key(table, key) for key in keys}
        wanted -= self._changes.keys()
        with self._environment.read() as txn, txn.cursor(self._rows) as cursor:
            stored = dict(cursor.getmulti(sorted(wanted)))
        self._cached = {key: self._unapplied.get(key, stored.get(key)) for key in wanted}

    def get(self, table: str, key: bytes) -> StoredRow | None:
        """Return the last row of a key that was prefetched."""
        stored_key = _stored_key(table, key)
        entry = self._changes[stored_key] if stored_key in self._changes else self._cached.get(stored_key)
        return None if entry is None else _decode_entry(entry).row

    def put(self, table: str, key: bytes, row: StoredRow) -> None:
        self._changes[_stored_key(table, key)] = _encode(_KeyedRow(key, row))

    def remove(self, table: str, key: bytes) -> None:
        self._changes[_stored_key(table, key)] = None

    def all_rows(self, table: str) -> Iterator[tuple[bytes, StoredRow]]:
        """Yield the keys and the rows of a table."""
        prefix = _table_id(table)
        entries: dict[bytes, bytes | None] = {}
        with self._environment.read() as txn, txn.cursor(self._rows) as cursor:
            if cursor.set_range(prefix):
                for stored_key, entry in cursor:
                    if not stored_key.startswith(prefix):
                        break
                    entries[stored_key] = entry
        changes = {**self._unapplied, **self._changes}
        entries.update((key, entry) for key, entry in changes.items() if key.startswith(prefix))
        decoded = (_decode_entry(entry) for _, entry in sorted(entries.items()) if entry is not None)
        return ((entry.key, entry.row) for entry in decoded)

    def stage(self) -> int:
        """Make the changes durable under the next number, without applying them; return the last number."""
        if self._changes:
            self.staged += 1
            changes = _encode(list(self._changes.items()))
            self._environment.update(lambda txn: txn.put(_number(self.staged), changes, db=self._staged))
            self._unapplied.update(self._changes)
            self._changes, self._cached = {}, {}
        return self.staged

    def commit(self, number: int) -> None:
        """Apply what was staged up to a number."""
        if self._unapplied and self._environment.update(lambda txn: self._apply(txn, number)) == self.staged:
            self._unapplied = {}

    def _apply(self, txn: WriteTransaction, number: int) -> int:
        applied = int(txn.get(_APPLIED, b"0", db=self._facts))
        for current in range(applied + 1, number + 1):
            changes = txn.get(_number(current), db=self._staged)
            if changes is None:
                raise DamagedError(f"changes {current} of the rows of a source are lost", hint="delete its state")
            for key, entry in _decode_changes(changes):
                if entry is None:
                    txn.delete(key, db=self._rows)
                else:
                    txn.put(key, entry, db=self._rows)
            txn.delete(_number(current), db=self._staged)
        txn.put(_APPLIED, b"%d" % max(applied, number), db=self._facts)
        return max(applied, number)

    def _discard(self, txn: WriteTransaction) -> None:
        txn.drop(self._staged, delete=False)

    def close(self) -> None:
        self._environment.close()


def _number(number: int) -> bytes:
    return number.to_bytes(8, "big")


def _table_id(table: str) -> bytes:
    return blake2b(table.encode(), digest_size=_TABLE_BYTES).digest()


def _stored_key(table: str, key: bytes) -> bytes:
    if len(key) > _MAX_KEY_BYTES:
        key = b"\xff" + blake2b(key, digest_size=32).digest()
    return _table_id(table) + key
