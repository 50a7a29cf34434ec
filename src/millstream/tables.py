"""Read the tables of an app from any process of the host, while it runs or after.

Each look-up sees the state as of the last batch that the row's task has committed, and never waits for the app.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from millstream.batch.journal import Journal
from millstream.errors import StateError, UnknownTableError
from millstream.native import NATIVE, encode_key, value_codec
from millstream.partitioning import partition_of
from millstream.places import app_names, journal_dir, state_dir
from millstream.plan.layout import Layout
from millstream.plan.topology import Plan
from millstream.serdes import READABLE, Serde, serde_named
from millstream.state.keyvalue import fetch, scan
from millstream.state.task import store_database
from millstream.storage import environment


class TableEntry(msgspec.Struct, frozen=True):
    """Where a table lies; ``key`` decides the partition of a row, ``value`` how it is read."""

    name: str
    stage: str
    partitions: int
    key: str
    value: str


class Row(msgspec.Struct, frozen=True):
    """A row of a table."""

    key: Any
    value: Any
    timestamp: int


class TableReader:
    """A table, read only; ``table[key]`` and ``key in table`` work as in a dict."""

    def __init__(self, directory: Path, entry: TableEntry, key: Serde, value: Serde) -> None:
        self.name = entry.name
        self._directory = directory / entry.stage
        self._partitions = entry.partitions
        self._key = key
        self._decode = value.decode
        self._database = store_database(entry.name)

    def row(self, key: Any) -> Row | None:
        """Return the row of a key with its timestamp, or None."""
        path = self._directory / str(partition_of(self._key.encode(key), self._partitions))
        found: tuple[Any, int] | None = None
        for txn, database in self._snapshot(path):
            found = fetch(txn, database, self._decode, key)
        return None if found is None else Row(key, *found)

    def get(self, key: Any, default: Any = None) -> Any:
        """Return the value of a key, or ``default``."""
        row = self.row(key)
        return default if row is None else row.value

    def __getitem__(self, key: Any) -> Any:
        row = self.row(key)
        if row is None:
            raise KeyError(key)
        return row.value

    def __contains__(self, key: Any) -> bool:
        return self.row(key) is not None

    def scan(self, *, start: Any = None, stop: Any = None, prefix: str | None = None) -> Iterator[Row]:
        """Yield rows in key order within each partition; ``stop`` is not included, ``prefix`` is for text keys."""
        first = b"" if start is None else encode_key(start)
        last = None if stop is None else encode_key(stop)
        if prefix is not None:
            first = encode_key(prefix)
            last = first + b"\xff"
        for partition in range(self._partitions):
            yield from self._scan_partition(partition, first, last)

    def _scan_partition(self, partition: int, first: bytes, last: bytes | None) -> list[Row]:
        rows: list[Row] = []
        for txn, database in self._snapshot(self._directory / str(partition)):
            rows = [Row(*found) for found in scan(txn, database, self._decode, first, last)]
        return rows

    def _snapshot(self, path: Path) -> Iterator[tuple[Any, Any]]:
        """Yield a snapshot of a partition, or nothing if no batch has been committed there yet."""
        if (path / "data.mdb").exists():
            place = environment(path, (self._database,), readonly=True)
            database = place.databases[self._database]
            if database is not None:
                with place.read() as txn:
                    yield txn, database

    def items(self) -> Iterator[tuple[Any, Any]]:
        """Yield all keys and values."""
        return ((row.key, row.value) for row in self.scan())

    def __len__(self) -> int:
        paths = (self._directory / str(partition) for partition in range(self._partitions))
        return sum(txn.stat(database)["entries"] for path in paths for txn, database in self._snapshot(path))


def catalog_of(layout: Layout) -> dict[str, Any]:
    """Return what other processes need in order to read the tables of a layout."""
    plan = layout.plan
    entries = [
        TableEntry(
            name=node.name or "",
            stage=stage.name,
            partitions=layout.partitions[number],
            key=(plan.declared[node].key or READABLE).name,
            value=value_codec(plan.declared[node].value).name,
        )
        for number, stage in enumerate(plan.stages)
        for node in stage.stores
    ]
    return {"tables": [msgspec.to_builtins(entry) for entry in entries]}


def check_moves(before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Refuse a topology in which a table would lie elsewhere than it did: it would begin empty and say nothing."""
    tables = {entry.name: entry for entry in msgspec.convert(now["tables"], list[TableEntry])}
    for entry in msgspec.convert(before.get("tables", []), list[TableEntry]):
        found = tables.get(entry.name)
        if found is not None and (found.stage, found.partitions) != (entry.stage, entry.partitions):
            raise StateError(
                f"table {entry.name!r} is kept by stage {entry.stage!r} with {entry.partitions} partitions, "
                f"but would now belong to stage {found.stage!r} with {found.partitions}",
                hint="undo the change, or run the new topology under another app id",
                table=entry.name,
            )


def readers_of(layout: Layout, directory: Path) -> dict[str, TableReader]:
    """Return readers of all tables of a layout, whose state lies in ``directory``."""
    entries = msgspec.convert(catalog_of(layout)["tables"], list[TableEntry])
    return {entry.name: _reader(directory, entry, layout.plan) for entry in entries}


def open_tables(data_dir: Path, app: str, plan: Plan | None = None) -> Mapping[str, TableReader]:
    """Return the tables of an app; with its plan rows come back as the declared types, else as plain data."""
    if app not in app_names(data_dir):
        known = ", ".join(app_names(data_dir)) or "none yet"
        raise UnknownTableError(f"app {app!r} has not run on {str(data_dir)!r}", hint=f"apps there: {known}")
    journal = Journal(journal_dir(data_dir, app), readonly=True)
    tables = Tables(app)
    for entry in msgspec.convert(journal.catalog().get("tables", []), list[TableEntry]):
        tables[entry.name] = _reader(state_dir(data_dir, app), entry, plan)
    return tables


def _reader(directory: Path, entry: TableEntry, plan: Plan | None) -> TableReader:
    nodes = () if plan is None else plan.nodes
    declared = next((plan.declared[node] for node in nodes if plan and node.name == entry.name), None)
    if declared is None:
        key, value = serde_named(entry.key) or READABLE, serde_named(entry.value) or NATIVE
    else:
        key, value = declared.key or READABLE, value_codec(declared.value)
    return TableReader(directory, entry, key, value)


class Tables(dict[str, TableReader]):
    """Tables by name; a name that is not there gets a helpful error."""

    def __init__(self, app: str) -> None:
        super().__init__()
        self._app = app

    def __missing__(self, name: str) -> TableReader:
        known = ", ".join(sorted(self)) or "none"
        raise UnknownTableError(f"app {self._app!r} has no table {name!r}", hint=f"its tables: {known}")
