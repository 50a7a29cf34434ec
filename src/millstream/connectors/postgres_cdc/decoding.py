"""Row messages of one table, decoded together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from millstream.connectors.change_data.changes import TableChanges
from millstream.connectors.change_data.relation import UPDATE, ReplicatedTable
from millstream.connectors.change_data.slices import SliceBuffer
from millstream.connectors.postgres_cdc.messages import HEADER_BYTES, NEW_TUPLE
from millstream.connectors.postgres_cdc.tuples import integers_at, walk_tuples


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
