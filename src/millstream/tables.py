"""Read the tables of an app from any process of the host, while it runs or after.

Each look-up sees the state as of the last batch that the row's task has committed, and never waits for the app.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from millstream.aggregations import AnyAggregation, finisher
from millstream.batch.journal import Journal
from millstream.errors import UnknownTableError
from millstream.native import NATIVE, encode_key, value_codec
from millstream.partitioning import partition_of
from millstream.places import app_names, journal_dir, state_dir
from millstream.plan.declared import Declared
from millstream.plan.describe import view
from millstream.plan.histories import history_of
from millstream.plan.layout import Layout
from millstream.plan.node import Node
from millstream.plan.stages import HISTORY
from millstream.plan.stateful import WindowedAggregate
from millstream.plan.topology import Plan
from millstream.processors import SessionSpec, StoreSpec, WindowSpec
from millstream.records import Windowed
from millstream.serdes import READABLE, Serde, serde_named
from millstream.state.keyvalue import fetch, scan
from millstream.state.task import store_database
from millstream.state.timed import Entry, clock_time, layout_of, observed_time, scan_key, scan_timed
from millstream.state.versioned import VersionedStore
from millstream.storage import environment
from millstream.windows import FOREVER, SessionWindows, SlidingWindows, Windows


class TableEntry(msgspec.Struct, frozen=True):
    """Where a table lies; ``key`` decides the partition of a row, ``value`` how it is read.

    Without ``key`` it is a store of a processor, which may keep a row wherever it runs.
    """

    name: str
    stage: str
    partitions: int
    key: str
    value: str
    windows: Windows | None = None
    retention: int = 0
    inclusive: bool = False
    """Whether a window at the very edge of the retention is still in reach."""
    ready: AnyAggregation | None = None
    """The aggregation by which rows are shown; what it keeps is something else."""
    history: int | None = None
    """For how many milliseconds versions of rows are kept."""


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
        self.partitions = entry.partitions
        self._key = key if entry.key else None
        self._decode = value.decode
        self._database = store_database(entry.name)
        self._databases: tuple[str, ...] = (self._database,)  # all must be open before a snapshot is taken

    def row(self, key: Any) -> Row | None:
        """Return the row of a key with its timestamp, or None."""
        found: tuple[Any, int] | None = None
        for path in self._paths_of(key):
            for txn, database in self._snapshot(path):
                found = fetch(txn, database, self._decode, key) or found
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

    def windows(self, key: Any, *, start: int = 0, stop: int = FOREVER) -> list[Row]:
        """Return the windows of a key that begin at ``start`` … ``stop``; only tables of windows have any."""
        raise UnknownTableError(
            f"table {self.name!r} has no windows, so none of key {key!r:.60} from {start} to {stop}",
            hint="use get() or scan()",
        )

    def scan(
        self, *, start: Any = None, stop: Any = None, prefix: str | None = None, limit: int | None = None
    ) -> Iterator[Row]:
        """Yield rows in key order within each partition; ``stop`` is not included, ``prefix`` is for text keys.

        With ``limit`` not more than so many are read from each partition, so that a look at a large table is cheap.
        """
        first = b"" if start is None else encode_key(start)
        last = None if stop is None else encode_key(stop)
        if prefix is not None:
            first = encode_key(prefix)
            last = first + b"\xff"
        for partition in range(self.partitions):
            yield from self._scan_partition(partition, first, last, limit)

    def _scan_partition(self, partition: int, first: bytes, last: bytes | None, limit: int | None) -> list[Row]:
        rows: list[Row] = []
        for txn, database in self._snapshot(self._directory / str(partition)):
            rows = [Row(*found) for found in islice(scan(txn, database, self._decode, first, last), limit)]
        return rows

    def partition_rows(self, partition: int) -> list[Row]:
        """Return the rows of one partition, all as of the same batch."""
        return self._scan_partition(partition, b"", None, None)

    def _snapshot(self, path: Path) -> Iterator[tuple[Any, Any]]:
        """Yield a snapshot of a partition, or nothing if no batch has been committed there yet."""
        if (path / "data.mdb").exists():
            place = environment(path, self._databases, readonly=True)
            database = place.databases[self._database]
            if database is not None:
                with place.read() as txn:
                    yield txn, database

    def partitions_of(self, key: Any) -> Sequence[int]:
        """Return the partitions in which a key's row can be: one, unless its place does not follow from the key."""
        if self._key is None:
            return range(self.partitions)
        return [partition_of(self._key.encode(key), self.partitions)]

    def _paths_of(self, key: Any) -> list[Path]:
        return [self._directory / str(partition) for partition in self.partitions_of(key)]

    def items(self) -> Iterator[tuple[Any, Any]]:
        """Yield all keys and values."""
        return ((row.key, row.value) for row in self.scan())

    def __len__(self) -> int:
        paths = (self._directory / str(partition) for partition in range(self.partitions))
        return sum(txn.stat(database)["entries"] for path in paths for txn, database in self._snapshot(path))


class VersionedTableReader(TableReader):
    """A table with history, read only: ``get`` knows the newest rows, ``get_as_of`` also those of earlier times."""

    def __init__(self, directory: Path, entry: TableEntry, key: Serde, value: Serde) -> None:
        super().__init__(directory, entry, key, value)
        assert entry.history is not None
        self._history = entry.history
        self._codec = value
        self._older = store_database(f"{entry.name}.{HISTORY}")
        self._databases = (self._database, self._older)

    def row_as_of(self, key: Any, time: int | datetime) -> Row | None:
        """Return the row that was valid at a time (milliseconds or a datetime), or None.

        From before the history only rows that are still the newest are known.
        """
        at = time if isinstance(time, int) else round(time.timestamp() * 1000)
        found: tuple[Any, int] = (None, -1)
        for path in self._paths_of(key):
            for txn, newest in self._snapshot(path):
                older = environment(path, (self._older,), readonly=True).databases[self._older]
                if older is not None and found[0] is None:
                    found = VersionedStore(txn, newest, older, self._codec, self._history).get_as_of(key, at)
        return None if found[0] is None else Row(key, *found)

    def get_as_of(self, key: Any, time: int | datetime, default: Any = None) -> Any:
        """Return the value that a key had at a time, or ``default``."""
        row = self.row_as_of(key, time)
        return default if row is None else row.value


class WindowTableReader(TableReader):
    """A table of windows, read only; its keys are ``Windowed(key, start, end)``."""

    def __init__(self, directory: Path, entry: TableEntry, key: Serde, value: Serde) -> None:
        super().__init__(directory, entry, key, value)
        assert entry.windows is not None
        self._windows = entry.windows
        self._layout = layout_of(entry.windows)
        self._retention = entry.retention
        self._inclusive = entry.inclusive

    def row(self, key: Windowed) -> Row | None:
        """Return the row of a window, or None."""
        return next((row for row in self.windows(key.key) if row.key == key), None)

    def windows(self, key: Any, *, start: int = 0, stop: int = FOREVER) -> list[Row]:
        """Return the windows of a key that begin at ``start`` … ``stop`` (milliseconds), in order."""
        rows: list[Row] = []
        for path in self._paths_of(key):
            for txn, database in self._snapshot(path):
                entries = scan_key(txn, database, self._decode, self._layout, key)
                rows += self._in_reach(entries, observed_time(txn, database))
        return [row for row in rows if start <= row.key.start <= stop]

    def scan(
        self, *, start: Any = None, stop: Any = None, prefix: str | None = None, limit: int | None = None
    ) -> Iterator[Row]:
        """Yield the windows of all keys that are still in reach; bounds are for the keys inside the windows."""
        first = None if start is None else encode_key(start)
        last = None if stop is None else encode_key(stop)

        def is_wanted(row: Row) -> bool:
            key = row.key.key
            encoded = encode_key(key) if first is not None or last is not None else b""
            return (
                (first is None or encoded >= first)
                and (last is None or encoded < last)
                and (prefix is None or str(key).startswith(prefix))
            )

        for partition in range(self.partitions):
            yield from self._windows_in(partition, is_wanted, limit)

    def partition_rows(self, partition: int) -> list[Row]:
        """Return the windows of one partition that are still in reach, all as of the same batch."""
        return self._windows_in(partition, None, None)

    def _windows_in(self, partition: int, is_wanted: Callable[[Row], bool] | None, limit: int | None) -> list[Row]:
        rows: list[Row] = []
        for txn, database in self._snapshot(self._directory / str(partition)):
            entries = (entry for _, entry in scan_timed(txn, database, self._decode, self._layout))
            found = self._in_reach(entries, observed_time(txn, database))
            rows = list(islice(found if is_wanted is None else filter(is_wanted, found), limit))
        return rows

    def stream_time(self, partition: int) -> int | None:
        """Return the time by which the windows of a partition close, or None before its first record."""
        for txn, database in self._snapshot(self._directory / str(partition)):
            time = clock_time(txn, database)
            return None if time < 0 else time
        return None

    def _in_reach(self, entries: Iterable[Entry], observed: int) -> Iterator[Row]:
        expired = observed - self._retention
        for entry in entries:
            if entry.at[0] > expired or (self._inclusive and entry.at[0] == expired):
                yield Row(self._windows.named(entry.key, entry.at), entry.value, entry.timestamp)

    def __len__(self) -> int:
        return sum(1 for _ in self.scan())


def catalog_of(layout: Layout) -> dict[str, Any]:
    """Return what other processes need in order to read the tables of a layout and to draw its plan."""
    plan = layout.plan
    entries = [
        _entry(node, stage.name, layout.partitions[number], plan)
        for number, stage in enumerate(plan.stages)
        if stage.round == 0
        for node in stage.stores
    ]
    entries += [
        _store_entry(name, spec, stage.name, layout.partitions[number])
        for number, stage in enumerate(plan.stages)
        if stage.round == 0
        for name, spec in stage.processor_stores.items()
    ]
    entries += [_entry(node, node.name or "", 1, plan) for node in plan.global_tables.values()]
    return {
        "tables": [msgspec.to_builtins(entry) for entry in entries],
        "plan": view(plan),
        "partitions": {stage.name: layout.partitions[number] for number, stage in enumerate(plan.stages)},
    }


def _entry(node: Node, stage: str, partitions: int, plan: Plan) -> TableEntry:
    declared = plan.declared[node]
    entry = TableEntry(
        name=node.name or "",
        stage=stage,
        partitions=partitions,
        key=(declared.key or READABLE).name,
        value=value_codec(declared.value).name,
        ready=getattr(node, "ready", None),
    )
    if not isinstance(node, WindowedAggregate):
        return msgspec.structs.replace(entry, history=history_of(node))
    key = plan.declared[node.source].key or READABLE  # the key inside of the window decides the partition
    inclusive = node.final and not isinstance(node.windows, SessionWindows)
    return msgspec.structs.replace(
        entry, key=key.name, windows=node.windows, retention=node.kept_for, inclusive=inclusive
    )


def _store_entry(name: str, spec: StoreSpec, stage: str, partitions: int) -> TableEntry:
    entry = TableEntry(name=name, stage=stage, partitions=partitions, key="", value=value_codec(spec.value).name)
    if not isinstance(spec, WindowSpec | SessionSpec):
        return msgspec.structs.replace(entry, history=getattr(spec, "history", None))
    windows = SlidingWindows(0, 0) if isinstance(spec, WindowSpec) else SessionWindows(0, 0)
    return msgspec.structs.replace(entry, windows=windows, retention=spec.retention)


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
    node = next((node for node in nodes if node.name == entry.name), None)
    declared = None if plan is None or node is None else plan.declared[node]
    if plan is not None and not entry.key:
        declared = next((Declared(None, spec.value) for spec in _specs(plan, entry.name)), None)
    key = serde_named(entry.key) or (declared and declared.key) or READABLE
    value = serde_named(entry.value) or NATIVE if declared is None else value_codec(declared.value)
    if entry.ready is not None:
        value = Finished(value, finisher(entry.ready, getattr(node, "build", None)))
    if entry.windows is not None:
        return WindowTableReader(directory, entry, key, value)
    return (TableReader if entry.history is None else VersionedTableReader)(directory, entry, key, value)


class Finished:
    """Reads what an aggregation keeps as what it shows."""

    def __init__(self, kept: Serde, finish: Callable[[Any], Any]) -> None:
        self.name, self.encode = kept.name, kept.encode
        self.decode: Callable[[bytes], Any] = lambda data: finish(kept.decode(data))


def _specs(plan: Plan, store: str) -> list[StoreSpec]:
    return [stage.processor_stores[store] for stage in plan.stages if store in stage.processor_stores]


class Tables(dict[str, TableReader]):
    """Tables by name; a name that is not there gets a helpful error."""

    def __init__(self, app: str) -> None:
        super().__init__()
        self._app = app

    def __missing__(self, name: str) -> TableReader:
        known = ", ".join(sorted(self)) or "none"
        raise UnknownTableError(f"app {self._app!r} has no table {name!r}", hint=f"its tables: {known}")
