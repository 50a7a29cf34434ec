"""The copy of a global table on a host: all rows of a topic up to certain offsets.

Each batch defines the offsets. The first process that needs the copy advances it, in one transaction that also stores
the offsets; other processes wait for that transaction or find the copy advanced. Readers see a snapshot, and refuse a
snapshot that ends at other offsets than those of their batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from millstream.errors import StateError
from millstream.foundation.content import copy_of_table
from millstream.foundation.storage import open_environment
from millstream.foundation.transactions import Transaction, WriteTransaction
from millstream.foundation.typed_decoding import decode_msgpack
from millstream.serdes import Serde
from millstream.state.keyvalue import KeyValueStore
from millstream.state.task import store_database

_META = "meta"
_VERSION = b"mark"

Offsets: TypeAlias = tuple[int, ...]
"""For each partition of the topic, the offset of the first record that is not in the copy."""

Rows: TypeAlias = Iterable[tuple[Any, Any, int]]
"""(key, value, timestamp); a value of None deletes the row."""


class CopyVersion(msgspec.Struct, frozen=True, array_like=True):
    """The offsets of a copy, and how many records the batch that advanced it read and dropped."""

    offsets: Offsets = ()
    batch: int = 0
    records: int = 0
    dropped: dict[str, int] = {}
    rows: int = 0
    codec: str = ""


class LoadResult(msgspec.Struct):
    """How many records were read and dropped."""

    records: int = 0
    dropped: dict[str, int] = {}


LoadRows: TypeAlias = Callable[[Offsets, Callable[[Rows], None]], LoadResult]
"""Reads the topic from given offsets and passes its rows to a function, in order and in any number of calls."""


class TableCopy:
    """The copy of one global table."""

    def __init__(self, path: Path, name: str, codec: Serde, *, sync: bool = True) -> None:
        self._name = name
        self._codec = codec
        databases = (_META, store_database(name))
        self._environment = open_environment(path, databases, sync=sync, content=copy_of_table(name))
        self._meta, self._rows = (self._environment.databases[database] for database in databases)

    def advance(self, offsets: Offsets, batch: int, load: LoadRows) -> CopyVersion:
        """Advance the copy to the offsets of a batch, unless it is there already."""
        with self._environment.read() as txn:
            version = self._version(txn)
        if version.offsets == offsets and version.codec == self._codec.name:
            return version
        return self._environment.update(lambda txn: self._advance(txn, offsets, batch, load))

    def _advance(self, txn: WriteTransaction, offsets: Offsets, batch: int, load: LoadRows) -> CopyVersion:
        version = self._version(txn)
        if version.offsets == offsets and version.codec == self._codec.name:  # another process was faster
            return version
        if version.codec not in ("", self._codec.name):  # the type of rows has changed; load them all again
            txn.drop(self._rows, delete=False)
            version = CopyVersion()
        start = (*version.offsets, *(0 for _ in offsets[len(version.offsets) :]))
        if any(stored > expected for stored, expected in zip(start, offsets, strict=True)):
            raise self._wrong_offsets(version.offsets, offsets)

        def write(rows: Rows) -> None:
            store = KeyValueStore(txn, self._rows, self._codec, self._name)
            for key, value, timestamp in rows:
                row = store.row(key)
                row.value, row.timestamp = value, timestamp
                store.mark(row)
            store.flush()

        result = load(start, write)
        row_count = int(txn.stat(self._rows)["entries"])
        version = CopyVersion(offsets, batch, result.records, result.dropped, row_count, self._codec.name)
        txn.put(_VERSION, msgspec.msgpack.encode(version), db=self._meta)
        return version

    @contextmanager
    def reading(self, offsets: Offsets) -> Iterator[KeyValueStore]:
        """Open the rows at these offsets, read-only."""
        with self._environment.read() as txn:
            stored = self._version(txn).offsets
            if stored != offsets:
                raise self._wrong_offsets(stored, offsets)
            yield KeyValueStore(txn, self._rows, self._codec, self._name)

    def _version(self, txn: Transaction) -> CopyVersion:
        stored = txn.get(_VERSION, db=self._meta)
        return CopyVersion() if stored is None else decode_msgpack(stored, CopyVersion)

    def _wrong_offsets(self, stored: Offsets, expected: Offsets) -> StateError:
        return StateError(
            f"the copy of global table {self._name!r} ends at offsets {stored}, but the batch expects {expected}",
            hint=f"it belongs to another lineage of the app; delete {str(self._environment.path)!r} to load it again",
            table=self._name,
        )
