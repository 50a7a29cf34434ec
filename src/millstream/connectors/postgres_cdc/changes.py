"""Row messages of one table, decoded together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from millstream.connectors.postgres_cdc.cells import Cells, integers_at, walk_tuples
from millstream.connectors.postgres_cdc.json_rows import JsonColumns, Pieces
from millstream.connectors.postgres_cdc.messages import HEADER_BYTES, NEW_TUPLE, UPDATE, ReplicatedTable
from millstream.connectors.postgres_cdc.slices import SliceBuffer
from millstream.connectors.postgres_cdc.texts import INTEGERS, render_text, renderer
from millstream.foundation.blocks import Column

READ = ord("r")
"""The operation of a row of a snapshot."""


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


def decode_changes(relation: ReplicatedTable, messages: Sequence[bytes], times: Any, transactions: Any) -> TableChanges:
    """Find the cells of row messages."""
    buffer = SliceBuffer(b"".join(messages))
    lengths = np.fromiter(map(len, messages), np.int64, len(messages))
    starts = np.cumsum(lengths) - lengths
    data, width = buffer.array, len(relation.columns)
    operations = data[starts + HEADER_BYTES].copy()
    positions = starts + HEADER_BYTES + 6
    old = None
    old_rows = np.flatnonzero((operations == UPDATE) & (data[positions - 1] != NEW_TUPLE))
    if len(old_rows):
        old, ends = walk_tuples(buffer, positions[old_rows], width)
        positions[old_rows] = ends + 1
    cells, _ = walk_tuples(buffer, positions, width)
    return TableChanges(
        relation, cells, operations, old, old_rows, times, transactions, integers_at(data, starts + 1, ">i8")
    )


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
