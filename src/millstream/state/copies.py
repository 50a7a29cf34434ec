"""The copy of a global table on a host: all rows of a topic up to certain offsets.

Each batch says up to which offsets. Whoever needs the copy first brings it there, in one transaction that also stores
the offsets; everybody else finds it done, or waits for that transaction. What a reader sees is a snapshot, and it
refuses one that ends at other offsets than its batch says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from millstream.errors import StateError
from millstream.foundation.storage import open_environment
from millstream.serdes import Serde
from millstream.state.keyvalue import KeyValueStore
from millstream.state.task import store_database

_META = "meta"
_MARK = b"mark"

Offsets: TypeAlias = tuple[int, ...]
"""For each partition of the topic the offset of the first record that is not in the copy."""

Rows: TypeAlias = Iterable[tuple[Any, Any, int]]
"""(key, value, timestamp); a value of None deletes the row."""


class CopyMark(msgspec.Struct, frozen=True, array_like=True):
    """How far a copy goes, and what the batch that brought it there read and dropped."""

    offsets: Offsets = ()
    batch: int = 0
    records: int = 0
    dropped: dict[str, int] = {}
    rows: int = 0
    codec: str = ""


class Loaded(msgspec.Struct):
    """What a load of records came to."""

    records: int = 0
    dropped: dict[str, int] = {}


Load: TypeAlias = Callable[[Offsets, Callable[[Rows], None]], Loaded]
"""Reads the topic from some offsets on and hands over its rows, in order and in as many portions as it likes."""


class TableCopy:
    """The copy of one global table."""

    def __init__(self, path: Path, name: str, codec: Serde, *, sync: bool = True) -> None:
        self._name = name
        self._codec = codec
        self._environment = open_environment(path, (_META, store_database(name)), sync=sync)
        self._meta, self._rows = (self._environment.databases[one] for one in (_META, store_database(name)))

    def advance(self, offsets: Offsets, batch: int, load: Load) -> CopyMark:
        """Bring the copy to the offsets of a batch, if it is not there yet."""
        with self._environment.read() as txn:
            mark = self._mark(txn)
        if mark.offsets == offsets and mark.codec == self._codec.name:
            return mark
        return self._environment.update(lambda txn: self._advance(txn, offsets, batch, load))

    def _advance(self, txn: Any, offsets: Offsets, batch: int, load: Load) -> CopyMark:
        mark = self._mark(txn)
        if mark.offsets == offsets and mark.codec == self._codec.name:  # another process was quicker
            return mark
        if mark.codec not in ("", self._codec.name):  # rows are of another type now; the topic has them all
            txn.drop(self._rows, delete=False)
            mark = CopyMark()
        start = (*mark.offsets, *(0 for _ in offsets[len(mark.offsets) :]))
        if any(found > wanted for found, wanted in zip(start, offsets, strict=True)):
            raise self._elsewhere(mark.offsets, offsets)

        def write(rows: Rows) -> None:
            store = KeyValueStore(txn, self._rows, self._codec, self._name)
            for key, value, timestamp in rows:
                row = store.row(key)
                row.value, row.timestamp = value, timestamp
                store.mark(row)
            store.flush()

        loaded = load(start, write)
        entries = int(txn.stat(self._rows)["entries"])
        mark = CopyMark(offsets, batch, loaded.records, loaded.dropped, entries, self._codec.name)
        txn.put(_MARK, msgspec.msgpack.encode(mark), db=self._meta)
        return mark

    @contextmanager
    def reading(self, offsets: Offsets) -> Iterator[KeyValueStore]:
        """Give the rows as they are at these offsets; they cannot be changed."""
        with self._environment.read() as txn:
            found = self._mark(txn).offsets
            if found != offsets:
                raise self._elsewhere(found, offsets)
            yield KeyValueStore(txn, self._rows, self._codec, self._name)

    def _mark(self, txn: Any) -> CopyMark:
        stored = txn.get(_MARK, db=self._meta)
        return CopyMark() if stored is None else msgspec.msgpack.decode(stored, type=CopyMark)

    def _elsewhere(self, found: Offsets, wanted: Offsets) -> StateError:
        return StateError(
            f"the copy of global table {self._name!r} ends at offsets {found}, but the batch wants {wanted}",
            hint=f"it belongs to another history of the app; delete {str(self._environment.path)!r} to load it anew",
            table=self._name,
        )
