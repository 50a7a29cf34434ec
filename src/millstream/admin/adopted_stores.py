"""The stores of an app that can be filled from changelogs of Kafka Streams, and how their rows are written."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

from millstream.admin.kafka_streams import SplitKey, StoreUpdate, split_plain_key, split_session_key, split_window_key
from millstream.errors import SerdeError
from millstream.foundation.object_codec import value_codec
from millstream.foundation.partitioning import partition_of
from millstream.foundation.text import error_text
from millstream.foundation.transactions import Transaction
from millstream.plan.histories import history_of
from millstream.plan.node import Node, inputs
from millstream.plan.sources import Source
from millstream.plan.stages import HISTORY, Stage, keeps_table
from millstream.plan.stateful import WindowedAggregate
from millstream.plan.topology import Plan
from millstream.processors import SessionSpec, StoreSpec, VersionedSpec, WindowSpec
from millstream.serdes import FLOAT64, INT64, JSON, READABLE, Json, Serde, route_encoder
from millstream.state.keyvalue import KeyValueStore
from millstream.state.segments import ONE_TIME, TWO_TIMES, position_layout
from millstream.state.task import TaskState
from millstream.state.timed import TimedStore
from millstream.state.versioned import VersionedStore
from millstream.state.windows import WindowStore
from millstream.windows import TimeWindows, UnlimitedWindows


class AdoptedRow(NamedTuple):
    """An update, decoded; ``value`` None deletes."""

    key: Any
    position: tuple[int, ...]
    value: Any
    timestamp: int


@dataclass(frozen=True, kw_only=True)
class AdoptedStore:
    """A store of a stage whose rows Kafka Streams has too; without ``layout`` it has no windows."""

    name: str
    stage: Stage
    key: Serde
    """The serde of keys in the changelog."""
    value: Serde
    codec: Serde
    by_key: bool
    """Whether the key of a row decides its partition; otherwise a row stays where it is."""
    source: Source | None = None
    """The source of a table that is read from a topic."""
    layout: struct.Struct | None = None
    retention: int = 0
    history: int | None = None
    exact: bool = False
    clocks: int = 0

    @property
    def kind(self) -> str:
        """What the store holds."""
        if self.layout is None:
            return "rows" if self.history is None else "versions of rows"
        return "sessions" if self.layout is TWO_TIMES else "windows"

    def decode(self, update: StoreUpdate) -> AdoptedRow:
        """Return an update with key and value as the app uses them."""
        try:
            data, position = self._split(update.key)
            value = None if update.value is None else self.value.decode(update.value)
            return AdoptedRow(self.key.decode(data), position, value, update.timestamp)
        except Exception as error:
            raise SerdeError(
                f"a row of store {self.name!r} cannot be read (key {self.key.name}, value {self.value.name}): "
                f"{error_text(error)}",
                hint=f"name the formats of Kafka Streams: --key {self.name}=FORMAT, --value {self.name}=FORMAT",
                store=self.name,
            ) from error

    @property
    def _split(self) -> SplitKey:
        if self.layout is None:
            return split_plain_key
        return split_session_key if self.layout is TWO_TIMES else split_window_key

    def partition_of(self, row: AdoptedRow, origin: int, partitions: int) -> int:
        """Return the partition of the task to which a row of partition ``origin`` belongs."""
        return partition_of(route_encoder(self.key)(row.key), partitions) if self.by_key else origin

    def write(self, state: TaskState, rows: Sequence[AdoptedRow]) -> None:
        """Apply updates to the state of a task, in one commit."""
        state.update(partial(self._put, state, rows))

    def _put(self, state: TaskState, rows: Sequence[AdoptedRow], txn: Transaction) -> None:
        database = state.database(self.name)
        if self.layout is not None:
            self._put_entries(txn, database, self.layout, rows)
        elif self.history is not None:
            older = state.database(f"{self.name}.{HISTORY}")
            versions = VersionedStore(txn, database, older, self.codec, self.history, self.name)
            for key, _, value, timestamp in rows:
                versions.put(key, value, timestamp)
            versions.flush()
        else:
            store = KeyValueStore(txn, database, self.codec, self.name)
            for key, _, value, timestamp in rows:
                stored = store.row(key)
                stored.value, stored.timestamp = value, timestamp
                store.mark(stored)
            store.write_through()

    def _put_entries(self, txn: Transaction, database: Any, layout: struct.Struct, rows: Sequence[AdoptedRow]) -> None:
        store = (WindowStore if self.exact else TimedStore)(txn, database, self.codec, layout, self.retention)
        for key, position, value, timestamp in rows:
            entry = store.entry(key, position)
            # the result of a session has the time of its end
            entry.value, entry.timestamp = value, position[0] if layout is TWO_TIMES else timestamp
            store.mark(entry)
        for number in range(self.clocks):
            clock = store.clock(number)
            clock.time = max(clock.time, *(row.timestamp for row in rows))
        store.write_through()
        store.flush()


class Formats(NamedTuple):
    """The serdes of keys and values that the user has named, by store."""

    keys: Mapping[str, Serde]
    values: Mapping[str, Serde]


def adoptable_stores(plan: Plan, stage: Stage, formats: Formats) -> tuple[list[AdoptedStore], dict[str, str]]:
    """Return the stores of a stage that can be taken over, and why the others cannot, by name."""
    stores: list[AdoptedStore] = []
    reasons: dict[str, str] = {}
    for name, node in stage.store_owners.items():
        spec = stage.processor_stores.get(name)
        if spec is not None:
            stores.append(_processor_store(plan, stage, name, node, spec, formats))
        elif name != node.name or not keeps_table(node):
            if not _is_history(name, stage):
                reasons[name] = "Kafka Streams stores it in another form"
        elif (reason := _reason_against(node)) is not None:
            reasons[name] = reason
        else:
            stores.append(_table(plan, stage, node, formats))
    return stores, reasons


def _is_history(name: str, stage: Stage) -> bool:
    """Whether a store is a part of a versioned one."""
    base, _, part = name.rpartition(".")
    return part == HISTORY and base in stage.store_names


def _reason_against(node: Node) -> str | None:
    if getattr(node, "ready", None) is not None:
        return "a built-in aggregation stores more than its result"
    if getattr(node, "final", False):
        return "a changelog does not say which final results were emitted"
    return None


def _table(plan: Plan, stage: Stage, node: Node, formats: Formats) -> AdoptedStore:
    name, declared = node.name or "", plan.declared[node]
    source = node if isinstance(node, Source) else None
    windows = node if isinstance(node, WindowedAggregate) else None
    key = declared.key if windows is None else plan.declared[windows.source].key
    value = source.value if source is not None else as_java_writes(declared.value)
    if windows is not None and windows.counts:
        value = INT64
    store = AdoptedStore(
        name=name,
        stage=stage,
        key=formats.keys.get(name) or key or READABLE,
        value=formats.values.get(name) or value,
        codec=value_codec(declared.value),
        by_key=not any(isinstance(head, Source) for head in stage.heads),
        source=source,
        history=history_of(node),
    )
    if windows is None:
        return store
    return replace(
        store,
        layout=position_layout(windows.windows),
        retention=windows.kept_for,
        exact=isinstance(windows.windows, TimeWindows | UnlimitedWindows),
        clocks=1 + len(windows.other_adders),
    )


def _processor_store(
    plan: Plan, stage: Stage, name: str, node: Node, spec: StoreSpec, formats: Formats
) -> AdoptedStore:
    store = AdoptedStore(
        name=name,
        stage=stage,
        key=formats.keys.get(name) or plan.declared[inputs(node)[0]].key or READABLE,
        value=formats.values.get(name) or as_java_writes(spec.value),
        codec=value_codec(spec.value),
        by_key=False,
        history=spec.history if isinstance(spec, VersionedSpec) else None,
    )
    if not isinstance(spec, WindowSpec | SessionSpec):
        return store
    return replace(store, layout=ONE_TIME if isinstance(spec, WindowSpec) else TWO_TIMES, retention=spec.retention)


def as_java_writes(declared: Serde | None) -> Serde:
    """Return the serde with which a Java program most likely writes a type: numbers are binary, not JSON.

    >>> as_java_writes(Json(int)).name, as_java_writes(None).name
    ('int64', 'json')
    """
    if isinstance(declared, Json) and declared.type in (int, float):
        return INT64 if declared.type is int else FLOAT64
    return declared or JSON
