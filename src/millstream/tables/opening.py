"""Open the tables of an app from any process on the host, while it runs or afterwards."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec

from millstream.aggregations import finisher
from millstream.batch.journal import Journal
from millstream.broker import Broker
from millstream.errors import UnknownTableError
from millstream.foundation.names import is_valid_name
from millstream.foundation.object_codec import OBJECT_CODEC, value_codec
from millstream.foundation.paths import app_names, has_run, journal_dir, state_dir
from millstream.foundation.typed_decoding import decode_json
from millstream.plan.declared import Declared
from millstream.plan.describe import view
from millstream.plan.histories import history_of
from millstream.plan.layout import Layout
from millstream.plan.node import Node
from millstream.plan.stateful import WindowedAggregate
from millstream.plan.topology import Plan
from millstream.processors import SessionSpec, StoreSpec, WindowSpec
from millstream.serdes import READABLE, Serde
from millstream.tables.copies import TableCatalog, TableCopies, copies_of
from millstream.tables.rows import TableEntry, TableReader
from millstream.tables.state_files import check_states
from millstream.tables.versions import VersionedTableReader
from millstream.tables.windows import WindowTableReader
from millstream.windowed_serdes import SessionWindowed, TimeWindowed, serde_named
from millstream.windows import SessionWindows, SlidingWindows


def catalog_of(layout: Layout) -> dict[str, Any]:
    """Return what other processes need to read the tables of a layout and to draw its plan."""
    return {
        "tables": [msgspec.to_builtins(entry) for entry in table_entries(layout)],
        "plan": view(layout.plan),
        "partitions": layout.partitions_by_stage,
    }


def table_entries(layout: Layout) -> list[TableEntry]:
    """Return the tables of a layout and the stores of its processors."""
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
    copied = (_entry(node, node.name or "", 1, plan) for node in plan.global_tables.values())
    return [*entries, *(msgspec.structs.replace(entry, is_global=True) for entry in copied)]


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
    key = plan.declared[node.source].key or READABLE  # the key inside the window decides the partition
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
    """Return readers of all tables of a layout, whose state is stored in ``directory``."""
    return {entry.name: _reader(directory, entry, layout.plan) for entry in table_entries(layout)}


def open_tables(
    data_dir: Path, app: str, plan: Plan | None = None, broker: Broker | None = None
) -> Mapping[str, TableReader]:
    """Return the tables of an app; with its plan rows have the declared types, without it they are plain data.

    With a broker that has the changelogs of the app, its tables can be read on any host.
    """
    copies = None if broker is None or not is_valid_name(app) else copies_of(data_dir, app, broker)
    if copies is not None:
        return _copied_tables(copies, plan)
    if not has_run(data_dir, app):
        names = ", ".join(app_names(data_dir)) or "none yet"
        raise UnknownTableError(f"app {app!r} has not run on {str(data_dir)!r}", hint=f"apps there: {names}")
    directory = state_dir(data_dir, app)
    journal = Journal(journal_dir(data_dir, app), readonly=True)
    check_states(directory.parent, journal)
    stored = journal.encoded_catalog()
    return _plain_tables(directory, app, stored) if plan is None else _tables(directory, app, stored, plan)


def _copied_tables(copies: TableCopies, plan: Plan | None) -> Tables:
    """Return readers of copies; a global table has no changelog, since each host copies its topic."""
    catalog, stages = copies.catalog(), copies.changelogs()
    tables = _tables(copies.state_dir, copies.app, catalog, plan, copies)
    for entry in decode_json(catalog, TableCatalog).tables:
        if entry.stage not in stages:
            del tables[entry.name]
    return tables


def _tables(directory: Path, app: str, catalog: bytes, plan: Plan | None, copies: TableCopies | None = None) -> Tables:
    tables = Tables(app)
    for entry in decode_json(catalog, TableCatalog).tables:
        tables[entry.name] = _reader(directory, entry, plan, copies)
    return tables


@lru_cache(maxsize=64)
def _plain_tables(directory: Path, app: str, catalog: bytes) -> Tables:
    """Return cached readers of a catalog, for fast look-ups; readers keep nothing open."""
    return _tables(directory, app, catalog, None)


def _reader(directory: Path, entry: TableEntry, plan: Plan | None, copies: TableCopies | None = None) -> TableReader:
    nodes = () if plan is None else plan.nodes
    node = next((node for node in nodes if node.name == entry.name), None)
    declared = None if plan is None or node is None else plan.declared[node]
    if plan is not None and not entry.key:
        declared = next((Declared(None, spec.value) for spec in _specs(plan, entry.name)), None)
    own_key = None if declared is None else declared.key
    if isinstance(own_key, TimeWindowed | SessionWindowed):
        own_key = own_key.inner  # decides the partition
    key = serde_named(entry.key) or own_key or READABLE
    value = serde_named(entry.value) or OBJECT_CODEC if declared is None else value_codec(declared.value)
    if entry.ready is not None:
        value = Finished(value, finisher(entry.ready, getattr(node, "build", None)))
    if entry.windows is not None:
        return WindowTableReader(directory, entry, key, value, copies)
    return (TableReader if entry.history is None else VersionedTableReader)(directory, entry, key, value, copies)


class Finished:
    """Decodes the state of an aggregation to its result."""

    def __init__(self, state: Serde, finish: Callable[[Any], Any]) -> None:
        self.name, self.encode = state.name, state.encode
        self.decode: Callable[[bytes], Any] = lambda data: finish(state.decode(data))


def _specs(plan: Plan, store: str) -> list[StoreSpec]:
    return [stage.processor_stores[store] for stage in plan.stages if store in stage.processor_stores]


class Tables(dict[str, TableReader]):
    """Tables by name; the error for an unknown name lists the tables."""

    def __init__(self, app: str) -> None:
        super().__init__()
        self._app = app

    def __missing__(self, name: str) -> TableReader:
        names = ", ".join(sorted(self)) or "none"
        raise UnknownTableError(f"app {self._app!r} has no table {name!r}", hint=f"its tables: {names}")
