"""Records of the format "row": the row as a JSON object, and a tombstone when it is deleted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from millstream.connectors.change_data.changes import CompleteChanges, kept_rows
from millstream.connectors.change_data.json_rows import JsonColumns
from millstream.connectors.change_data.relation import DELETE
from millstream.foundation.blocks import SCHEMA, Block, Column, binary_column, int_column, take_rows


class RowFormat:
    """Writes the row; a change of the key is a tombstone for the old key and a row for the new one."""

    def block(self, complete: CompleteChanges) -> Block:
        """Return the records of changes."""
        changes = complete.changes
        cells, relation = changes.cells, changes.relation
        pieces = JsonColumns(cells).objects(relation.columns, range(len(relation.columns)))
        is_delete = changes.operations == DELETE
        values = cells.buffer.join(pieces, cells.row_count, is_delete if is_delete.any() else None)
        return with_old_keys(complete, keyed_block(complete.keys, values, changes.times))


def keyed_block(keys: Column, values: Column, microseconds: Any) -> Block:
    """Return a block without headers."""
    columns = [keys, values, int_column(microseconds // 1000), pa.nulls(len(keys), pa.binary())]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def with_old_keys(complete: CompleteChanges, block: Block) -> Block:
    """Put a tombstone before each row whose key has changed, and leave out the omitted rows."""
    kept = kept_rows(complete)
    if not complete.old_keys:
        return block if kept is None else take_rows(block, kept)
    rows = sorted(complete.old_keys)
    times = complete.changes.times[rows]
    tombstones = keyed_block(
        binary_column([complete.old_keys[row] for row in rows]), pa.nulls(len(rows), pa.binary()), times
    )
    count = block.num_rows
    kept = np.arange(count) if kept is None else kept
    order = sorted([*((row, 1, row) for row in kept.tolist()), *((row, 0, count + n) for n, row in enumerate(rows))])
    return take_rows(concat_blocks([block, tombstones]), [index for _, _, index in order])


def concat_blocks(blocks: list[Block]) -> Block:
    """Concatenate blocks."""
    return blocks[0] if len(blocks) == 1 else pa.concat_batches(blocks)
