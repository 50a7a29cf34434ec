"""The reader of a table: rows by key and by range.

Each look-up sees the state after the last batch that the row's task committed, and never waits for the app.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, Self, overload

import msgspec

from millstream.aggregations import AnyAggregation
from millstream.errors import UnknownTableError
from millstream.foundation.content import TASK_STATE, copy_of_table
from millstream.foundation.object_codec import encode_key
from millstream.foundation.partitioning import partition_of
from millstream.foundation.storage import open_environment
from millstream.foundation.type_variables import A, K, Key, V, Value
from millstream.foundation.value_columns import library
from millstream.serdes import Serde, route_encoder
from millstream.state.keyvalue import fetch, scan
from millstream.state.task import store_database
from millstream.tables.frames import arrow_table, columns_of, in_order
from millstream.windows import FOREVER, Windows


class TableEntry(msgspec.Struct, frozen=True):
    """Where and how a table is stored; ``key`` names the serde that decides a row's partition, ``value`` its codec.

    Without ``key`` it is a store of a processor, whose rows can be in any partition.
    """

    name: str
    stage: str
    partitions: int
    key: str
    value: str
    windows: Windows | None = None
    retention: int = 0
    inclusive: bool = False
    """Whether a window exactly at the limit of the retention can still be read."""
    ready: AnyAggregation | None = None
    """The aggregation that computes the shown value from the stored state."""
    history: int | None = None
    """How many milliseconds versions of rows are kept."""
    is_global: bool = False
    """Whether it is a global table, of which each host has a copy."""


class Row(msgspec.Struct, Generic[K, V], frozen=True):
    """A row of a table."""

    key: K
    value: V
    timestamp: int


class Version(Row[K, V], frozen=True):
    """A version of a row, valid from ``timestamp`` on; its value is None while the row was deleted."""

    until: int | None = None
    """When the next version replaced it; None for the current version."""


class SpecialLookups(Generic[Key, Value]):
    """Look-ups of windowed tables and of tables with history; on any other table they raise an error."""

    name: str

    def window(self, key: Any, start: int) -> Row[Key, Value] | None:
        """Return the row of the window of a key that starts at ``start``, or None. For windowed tables."""
        raise self._without_windows()

    def windows(self, key: Any, *, start: int = 0, stop: int = FOREVER, reverse: bool = False) -> list[Row[Key, Value]]:
        """Return the windows of a key that start at ``start`` … ``stop``. For windowed tables."""
        raise self._without_windows()

    def windows_of_all(
        self, first: Any = None, last: Any = None, *, start: int = 0, stop: int = FOREVER, reverse: bool = False
    ) -> Iterator[Row[Key, Value]]:
        """Yield the windows that start at ``start`` … ``stop`` of a range of keys. For windowed tables."""
        raise self._without_windows()

    def row_as_of(self, key: Key, time: int | datetime) -> Row[Key, Value] | None:
        """Return the row that was valid at a time, or None. For tables with history."""
        raise self._without_history()

    def get_as_of(self, key: Key, time: int | datetime, default: Any = None) -> Any:
        """Return the value of a key at a time, or ``default``. For tables with history."""
        raise self._without_history()

    def versions(self, key: Key) -> list[Version[Key, Value]]:
        """Return the versions of a row, the newest first. For tables with history."""
        raise self._without_history()

    def _without_windows(self) -> UnknownTableError:
        return UnknownTableError(f"table {self.name!r} has no windows", hint="use get(), range() or scan()")

    def _without_history(self) -> UnknownTableError:
        return UnknownTableError(f"table {self.name!r} has no history", hint='keep one with history="1 d"')


class Copies(Protocol):
    """Copies of states on another host."""

    @property
    def copied_at(self) -> int | None:
        """The wall-clock time before which everything that was committed is in the copies."""

    def prepare(self) -> None:
        """Wait until the copies can be read."""


class TableReader(SpecialLookups[Key, Value]):
    """A read-only table; ``table[key]`` and ``key in table`` work as in a dict.

    A type checker learns the types by annotation: ``words: TableReader[str, int] = app.tables["words"]``.
    """

    has_windows: ClassVar[bool] = False

    def __init__(
        self, directory: Path, entry: TableEntry, key: Serde, value: Serde, copies: Copies | None = None
    ) -> None:
        """Read the states in ``directory``, which are ``copies`` if the app runs on other hosts."""
        self.name = entry.name
        self._copies = copies
        self._directory = directory / entry.stage
        self.partitions = entry.partitions
        self._encode_route = route_encoder(key) if entry.key else None
        self._decode = value.decode
        self._value_type = getattr(value, "type", None)
        self._database = store_database(entry.name)
        self._content = copy_of_table(entry.name) if entry.is_global else TASK_STATE
        self._databases: tuple[str, ...] = (self._database,)  # all must be open before a snapshot is taken

    @property
    def copied_at(self) -> int | None:
        """If a copy is read, a wall-clock time in milliseconds: it contains everything that was committed before it.

        None if the state itself is read, which has everything that is committed.
        """
        return None if self._copies is None else self._copies.copied_at

    def row(self, key: Key) -> Row[Key, Value] | None:
        """Return the row of a key with its timestamp, or None."""
        fields: tuple[Any, int] | None = None
        for path in self._paths_of(key):
            for txn, database in self._snapshot(path):
                fields = fetch(txn, database, self._decode, key) or fields
        return None if fields is None else Row(key, *fields)

    @overload
    def get(self, key: Key, default: None = None) -> Value | None: ...
    @overload
    def get(self, key: Key, default: Value) -> Value: ...
    @overload
    def get(self, key: Key, default: A) -> Value | A: ...
    def get(self, key: Key, default: Any = None) -> Any:
        """Return the value of a key, or ``default``."""
        row = self.row(key)
        return default if row is None else row.value

    def __getitem__(self, key: Key) -> Value:
        row = self.row(key)
        if row is None:
            raise KeyError(key)
        return row.value

    def __contains__(self, key: Key) -> bool:
        return self.row(key) is not None

    def scan(
        self, *, start: Any = None, stop: Any = None, prefix: str | None = None, limit: int | None = None
    ) -> Iterator[Row[Key, Value]]:
        """Yield rows in key order within each partition; ``stop`` is not included, ``prefix`` is for text keys.

        ``limit`` is the maximum number of rows read from each partition.
        """
        first = b"" if start is None else encode_key(start)
        last = None if stop is None else encode_key(stop)
        if prefix is not None:
            first = encode_key(prefix)
            last = first + b"\xff"
        for partition in range(self.partitions):
            yield from self._scan_partition(partition, first, last, limit)

    def _scan_partition(
        self, partition: int, first: bytes, last: bytes | None, limit: int | None
    ) -> list[Row[Key, Value]]:
        rows: list[Row[Key, Value]] = []
        for txn, database in self._snapshot(self._directory / str(partition)):
            rows = [Row(*fields) for fields in islice(scan(txn, database, self._decode, first, last), limit)]
        return rows

    def range(
        self, first: Key | None = None, last: Key | None = None, *, reverse: bool = False
    ) -> Iterator[Row[Key, Value]]:
        """Yield the rows from ``first`` to ``last``, both included and both optional, in key order."""
        start = b"" if first is None else encode_key(first)
        stop = None if last is None else encode_key(last) + b"\x00"
        return self._in_order(start, stop, reverse=reverse)

    def prefix(self, text: str, *, reverse: bool = False) -> Iterator[Row[Key, Value]]:
        """Yield the rows whose text keys start with ``text``, in key order."""
        start = encode_key(text)
        return self._in_order(start, start + b"\xff", reverse=reverse)

    def _in_order(self, start: bytes, stop: bytes | None, *, reverse: bool) -> Iterator[Row[Key, Value]]:
        parts: list[Iterable[Row[Key, Value]]] = []
        for partition in range(self.partitions):
            rows = self._scan_partition(partition, start, stop, None)
            parts.append(reversed(rows) if reverse else rows)
        return heapq.merge(*parts, key=lambda row: encode_key(row.key), reverse=reverse)

    def partition_rows(self, partition: int) -> list[Row[Key, Value]]:
        """Return the rows of one partition, all after the same batch."""
        return self._scan_partition(partition, b"", None, None)

    def _snapshot(self, path: Path) -> Iterator[tuple[Any, Any]]:
        """Yield a snapshot of a partition, or nothing if no batch has been committed there yet."""
        if self._copies is not None:
            self._copies.prepare()
        if (path / "data.mdb").exists():
            environment = open_environment(path, self._databases, readonly=True, content=self._content)
            database = environment.databases[self._database]
            if database is not None:
                with environment.read() as txn:
                    yield txn, database

    def partitions_of(self, key: Any) -> Sequence[int]:
        """Return the partitions that can contain a key's row: one, or all for a store of a processor."""
        if self._encode_route is None:
            return range(self.partitions)
        return [partition_of(self._encode_route(key), self.partitions)]

    def without_routing(self) -> Self:
        """Return a reader that looks keys up in all partitions, for a process that does not know their serde."""
        reader = copy(self)
        reader._encode_route = None
        return reader

    def _paths_of(self, key: Any) -> list[Path]:
        return [self._directory / str(partition) for partition in self.partitions_of(key)]

    def items(self) -> Iterator[tuple[Key, Value]]:
        """Yield all keys and values."""
        return ((row.key, row.value) for row in self.scan())

    def to_arrow(self) -> Any:
        """Return the rows as a ``pyarrow.Table``, by key; rows of windows by their start, then by key.

        The columns are ``key``, for windows ``window_start`` and ``window_end``, the fields of the value or ``value``,
        and ``timestamp``. Times are in UTC. Each partition is read as of its last batch.
        """
        return arrow_table(self.name, self._columns(), windowed=self.has_windows)

    def to_pandas(self) -> Any:
        """Return the rows as a pandas ``DataFrame``, with the columns of ``to_arrow``."""
        library("pandas", "to_pandas")
        return self.to_arrow().to_pandas()

    def to_polars(self) -> Any:
        """Return the rows as a polars ``DataFrame``, with the columns of ``to_arrow``."""
        return library("polars", "to_polars").from_arrow(self.to_arrow())

    def _columns(self) -> dict[str, list[Any]]:
        return columns_of(in_order(self.scan()), windowed=self.has_windows, value_type=self._value_type)

    def _repr_html_(self) -> str:
        """Return the first rows as HTML, for Jupyter."""
        from millstream.notebook.tables import first_rows

        return first_rows(self)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"

    @property
    def location(self) -> str:
        """The directory and the name of the table, which are the same for all readers of it."""
        return f"{self._directory}:{self.name}"

    def __len__(self) -> int:
        paths = (self._directory / str(partition) for partition in range(self.partitions))
        return sum(txn.stat(database)["entries"] for path in paths for txn, database in self._snapshot(path))
