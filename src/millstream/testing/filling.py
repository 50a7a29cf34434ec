"""Write rows to tables and stores before a test starts, as if the app had run before."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from millstream.errors import DefinitionError
from millstream.foundation.object_codec import value_codec
from millstream.foundation.partitioning import partition_of
from millstream.foundation.transactions import Transaction
from millstream.plan.histories import history_of
from millstream.plan.stateful import WindowedAggregate
from millstream.processors import KeyValueSpec
from millstream.serdes import READABLE, Serde, route_encoder
from millstream.state.keyvalue import KeyValueStore
from millstream.task.environment import TaskEnvironment


def fill(environment: TaskEnvironment, table: str, rows: Mapping[Any, Any], timestamp: int) -> None:
    """Write rows, each to the task that its key belongs to."""
    number, key, codec = _stage_and_serdes(environment, table)
    encode_route = route_encoder(key)
    count = environment.layout.partitions[number]
    for partition in range(count):
        task_rows = [row for row in rows.items() if partition_of(encode_route(row[0]), count) == partition]
        if task_rows:
            _write(environment, environment.layout.first_task[number] + partition, table, codec, task_rows, timestamp)


def _stage_and_serdes(environment: TaskEnvironment, table: str) -> tuple[int, Serde, Serde]:
    """Return the number of the stage of a table or store, its key serde and its value codec."""
    plan = environment.layout.plan
    for number, stage in enumerate(plan.stages):
        spec = stage.processor_stores.get(table)
        if isinstance(spec, KeyValueSpec):
            return number, READABLE, value_codec(spec.value)
        for node in stage.stores:
            if node.name == table and not isinstance(node, WindowedAggregate) and history_of(node) is None:
                declared = plan.declared[node]
                return number, declared.key or READABLE, value_codec(declared.value)
    raise DefinitionError(
        f"{table!r} cannot be filled",
        hint="only tables and key-value stores can; for others, pipe records",
    )


def _write(
    environment: TaskEnvironment, task: int, table: str, codec: Serde, rows: Iterable[tuple[Any, Any]], timestamp: int
) -> None:
    state = environment.state(task)

    def change(txn: Transaction) -> None:
        store = KeyValueStore(txn, state.database(table), codec, table)
        for key, value in rows:
            row = store.row(key)
            row.value, row.timestamp = value, timestamp
            store.mark(row)
        store.flush()

    state.update(change)
