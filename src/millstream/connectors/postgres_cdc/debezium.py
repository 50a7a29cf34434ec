"""Records of the format "debezium": envelopes with the row before and after a change, as Debezium writes them.

They are those of the JSON converter without schemas. A delete is an envelope and then a tombstone; a TRUNCATE is a
delete of each row.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from importlib.metadata import version
from typing import NamedTuple

from millstream.connectors.postgres_cdc.cells import Cells
from millstream.connectors.postgres_cdc.changes import READ, TableChanges
from millstream.connectors.postgres_cdc.completion import CompleteChanges, cells_of_stored
from millstream.connectors.postgres_cdc.debezium_types import DEBEZIUM_TYPES, debezium_columns
from millstream.connectors.postgres_cdc.json_rows import JsonColumns
from millstream.connectors.postgres_cdc.messages import DELETE, INSERT, UPDATE, ReplicatedTable
from millstream.connectors.postgres_cdc.texts import encode_json
from millstream.foundation.blocks import Block, block_of
from millstream.records import Headers

_OPERATIONS = {INSERT: "c", UPDATE: "u", READ: "r"}
_NULL = b"null"


class _JsonChange(NamedTuple):
    """One change as JSON."""

    key: bytes
    old_key: bytes | None
    """None if the key has not changed."""
    before: bytes
    after: bytes


class DebeziumFormat:
    """Writes envelopes; a change of the key is a delete of the old row and a creation of the new one."""

    def __init__(self, name: str, database: str) -> None:
        self._name = name
        self._database = database
        self._version = version("millstream")

    def block(self, complete: CompleteChanges) -> Block:
        """Return the records of changes."""
        changes, omitted = complete.changes, frozenset(complete.omitted)
        records: list[tuple[bytes, bytes | None, int, Headers]] = []
        for index, row in enumerate(_rows(complete)):
            operation, milliseconds = int(changes.operations[index]), int(changes.times[index]) // 1000
            if row.old_key is not None or operation == DELETE:
                gone = row.key if row.old_key is None else row.old_key
                headers: Headers = () if row.old_key is None else (("__debezium.newkey", row.key),)
                records.append((gone, self._envelope(changes, index, "d", row.before, _NULL), milliseconds, headers))
                records.append((gone, None, milliseconds, headers))
            if operation == DELETE or index in omitted:
                continue
            if row.old_key is not None:
                value = self._envelope(changes, index, "c", _NULL, row.after)
                records.append((row.key, value, milliseconds, (("__debezium.oldkey", row.old_key),)))
            else:
                before = row.before if operation == UPDATE else _NULL
                value = self._envelope(changes, index, _OPERATIONS[operation], before, row.after)
                records.append((row.key, value, milliseconds, ()))
        return block_of(*(list(part) for part in zip(*records, strict=True))) if records else block_of([], [], [])

    def _envelope(self, changes: TableChanges, index: int, operation: str, before: bytes, after: bytes) -> bytes:
        microseconds, lsn = int(changes.times[index]), int(changes.lsns[index])
        is_snapshot = changes.operations[index] == READ
        source = {
            "version": self._version,
            "connector": "postgresql",
            "name": self._name,
            "ts_ms": microseconds // 1000,
            "snapshot": "true" if is_snapshot else "false",
            "db": self._database,
            "sequence": f'[null,"{lsn}"]',
            "ts_us": microseconds,
            "ts_ns": microseconds * 1000,
            "schema": changes.relation.schema,
            "table": changes.relation.table,
            "txId": None if is_snapshot else int(changes.transactions[index]),
            "lsn": lsn,
            "xmin": None,
            "origin": None,
            "origin_lsn": None,
        }
        now = time.time_ns()
        parts = (b'{"before":', before, b',"after":', after, b',"source":', encode_json(source))
        end = b',"transaction":null,"op":"%s","ts_ms":%d,"ts_us":%d,"ts_ns":%d}'
        return b"".join(parts) + end % (operation.encode(), now // 1_000_000, now // 1000, now)


def _rows(complete: CompleteChanges) -> list[_JsonChange]:
    changes, relation = complete.changes, complete.changes.relation
    columns, key_columns = range(len(relation.columns)), relation.key_indexes
    keys, rows = _objects(relation, changes.cells, key_columns), _objects(relation, changes.cells, columns)
    stored = _objects(relation, cells_of_stored(relation, complete.before), columns)
    sent: dict[int, tuple[bytes, bytes]] = {}
    if changes.old is not None:
        old = zip(_objects(relation, changes.old, key_columns), _objects(relation, changes.old, columns), strict=True)
        sent = dict(zip(changes.old_rows.tolist(), old, strict=True))
    changed = []
    for index, (key, row) in enumerate(zip(keys, rows, strict=True)):
        old_key, old_row = sent.get(index, (None, _NULL))
        if complete.before[index] is not None:
            old_row = stored[index]
        elif changes.operations[index] == DELETE:
            old_row = row  # its key, at least
        changed.append(_JsonChange(key, old_key if index in complete.old_keys else None, old_row, row))
    return changed


def _objects(relation: ReplicatedTable, cells: Cells, indexes: Sequence[int]) -> list[bytes]:
    columns = debezium_columns(relation.columns)
    pieces = JsonColumns(cells, DEBEZIUM_TYPES).objects(columns, indexes)
    objects: list[bytes] = cells.buffer.join(pieces, cells.row_count).to_pylist()
    return objects
