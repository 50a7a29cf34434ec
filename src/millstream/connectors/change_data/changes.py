"""Row messages of one table, decoded together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from millstream.connectors.change_data.cells import UNCHANGED, Cells, cells_of_rows
from millstream.connectors.change_data.json_rows import JsonColumns, Pieces
from millstream.connectors.change_data.relation import ReplicatedTable
from millstream.connectors.change_data.texts import FIXED_LENGTH, INTEGERS, render_text, renderer
from millstream.foundation.blocks import Column

StoredRow: TypeAlias = dict[str, bytes | None]
"""Texts by column."""


class TableChanges(NamedTuple):
    """Consecutive changes of one table."""

    relation: ReplicatedTable
    cells: Cells
    """The new row, or the old one of a delete."""
    operations: Any
    old: Cells | None
    """The old tuples of some updates: the key, or the whole row if the identity is full."""
    old_rows: Any
    """The indexes of these updates."""
    times: Any
    """Microseconds since 1970."""
    transactions: Any
    lsns: Any


class CompleteChanges(NamedTuple):
    """Changes with their keys, after completion."""

    changes: TableChanges
    keys: Column
    old_keys: dict[int, bytes]
    """The keys before updates that changed the key, by row."""
    before: list[StoredRow | None]
    """The rows before the changes, if all rows are kept."""
    omitted: list[int]
    """Rows that are incomplete, and that a snapshot will read."""


def changes_of_cells(
    relation: ReplicatedTable, cells: Cells, operation: int, *, time: int, lsn: int, transaction: int = 0
) -> TableChanges:
    """Return rows that have no messages of their own as changes of one kind: read by a snapshot, or truncated."""
    count = cells.row_count
    zeros = np.zeros(count, np.int64)
    operations = np.full(count, operation, np.uint8)
    return TableChanges(relation, cells, operations, None, zeros[:0], zeros + time, zeros + transaction, zeros + lsn)


def key_column(relation: ReplicatedTable, columns: JsonColumns, cells: Cells) -> Column:
    """Return the keys of rows: the value of one column as it is, or a JSON object with several."""
    return cells.buffer.join(_key_pieces(relation, columns), cells.row_count)


def _key_pieces(relation: ReplicatedTable, columns: JsonColumns) -> Pieces:
    indexes = relation.key_indexes
    if len(indexes) > 1:
        return columns.objects(relation.columns, indexes)
    type_id = relation.columns[indexes[0]].type
    if type_id in INTEGERS or renderer(type_id) is render_text:
        return columns.texts(indexes[0])
    return columns.values(indexes[0], type_id, b"")


def cells_of_stored(relation: ReplicatedTable, rows: Sequence[StoredRow | None]) -> Cells:
    """Return the cells of stored rows; large values that are not known are unchanged ones."""
    names = [column.name for column in relation.columns]
    cells = cells_of_rows([[(row or {}).get(name) for name in names] for row in rows], len(names))
    for index in toastable_columns(relation):
        is_unknown = [row is not None and names[index] not in row for row in rows]
        cells.columns[index].kinds[np.array(is_unknown, bool)] = UNCHANGED
    return cells


def toastable_columns(relation: ReplicatedTable) -> list[int]:
    return [index for index, column in enumerate(relation.columns) if column.type not in FIXED_LENGTH]


def kept_rows(complete: CompleteChanges) -> Any:
    """Return which rows are emitted; None for all."""
    if not complete.omitted:
        return None
    kept = np.ones(complete.changes.cells.row_count, bool)
    kept[complete.omitted] = False
    return np.flatnonzero(kept)


def changed_keys(changes: TableChanges, keys: Column) -> dict[int, bytes]:
    """Return the keys before updates that changed the key, by row."""
    if changes.old is None:
        return {}
    old = key_column(changes.relation, JsonColumns(changes.old), changes.old).to_pylist()
    pairs = zip(changes.old_rows.tolist(), old, strict=True)
    return {row: key for row, key in pairs if keys[row].as_py() != key}
