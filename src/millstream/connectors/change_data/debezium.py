"""Records of the format "debezium": envelopes with the row before and after a change, as Debezium writes them.

They are those of the JSON converter without schemas. A delete is an envelope and then a tombstone; a TRUNCATE is a
delete of each row.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from millstream.connectors.change_data.cells import Cells
from millstream.connectors.change_data.changes import CompleteChanges, TableChanges, cells_of_stored
from millstream.connectors.change_data.debezium_types import DEBEZIUM_TYPES, debezium_columns
from millstream.connectors.change_data.json_rows import JsonColumns
from millstream.connectors.change_data.relation import DELETE, INSERT, READ, UPDATE, ReplicatedTable
from millstream.connectors.change_data.texts import Render, encode_json
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


class SourceBlock(Protocol):
    """What a server says about where a change comes from: the field ``source`` of an envelope."""

    def __call__(self, changes: TableChanges, index: int) -> Mapping[str, Any]: ...


class DebeziumFormat:
    """Writes envelopes; a change of the key is a delete of the old row and a creation of the new one."""

    def __init__(self, source: SourceBlock, types: dict[int, Render] = DEBEZIUM_TYPES) -> None:
        self._source = source
        self._types = types

    def block(self, complete: CompleteChanges) -> Block:
        """Return the records of changes."""
        changes, omitted = complete.changes, frozenset(complete.omitted)
        records: list[tuple[bytes, bytes | None, int, Headers]] = []
        for index, row in enumerate(_rows(complete, self._types)):
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
        now = time.time_ns()
        parts = (b'{"before":', before, b',"after":', after, b',"source":', encode_json(self._source(changes, index)))
        end = b',"transaction":null,"op":"%s","ts_ms":%d,"ts_us":%d,"ts_ns":%d}'
        return b"".join(parts) + end % (operation.encode(), now // 1_000_000, now // 1000, now)


def _rows(complete: CompleteChanges, types: dict[int, Render]) -> list[_JsonChange]:
    changes, relation = complete.changes, complete.changes.relation
    columns, key_columns = range(len(relation.columns)), relation.key_indexes
    keys, rows = (
        _objects(relation, changes.cells, key_columns, types),
        _objects(relation, changes.cells, columns, types),
    )
    stored = _objects(relation, cells_of_stored(relation, complete.before), columns, types)
    sent: dict[int, tuple[bytes, bytes]] = {}
    if changes.old is not None:
        old_keys = _objects(relation, changes.old, key_columns, types)
        old = zip(old_keys, _objects(relation, changes.old, columns, types), strict=True)
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


def _objects(relation: ReplicatedTable, cells: Cells, indexes: Sequence[int], types: dict[int, Render]) -> list[bytes]:
    columns = debezium_columns(relation.columns)
    pieces = JsonColumns(cells, types).objects(columns, indexes)
    objects: list[bytes] = cells.buffer.join(pieces, cells.row_count).to_pylist()
    return objects
