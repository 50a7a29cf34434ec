"""Completes rows from the store: values that the server did not send, and rows as they were before a change."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias

import numpy as np

from millstream.connectors.change_data.cells import UNCHANGED, Cells
from millstream.connectors.change_data.changes import (
    CompleteChanges,
    StoredRow,
    TableChanges,
    cells_of_stored,
    changed_keys,
    changes_of_cells,
    key_column,
    toastable_columns,
)
from millstream.connectors.change_data.json_rows import JsonColumns
from millstream.connectors.change_data.relation import DELETE, FULL_IDENTITY, READ
from millstream.connectors.postgres_cdc.row_store import RowStore
from millstream.connectors.postgres_cdc.runs import TruncateRun
from millstream.foundation.blocks import binary_column

KeepRows: TypeAlias = Literal["needed", "all"]
"""needed: rows with values that the server may not send again; all: every row, for complete before-images."""

_MIN_TOASTED_BYTES = 128
"""Rows with less text have no value outside the row: Postgres moves values out of rows of at least 128 bytes, and by
default of 2,032; the text of a value is at least an eighth as long as the value."""


class Completion:
    """Reads and writes the rows of the store in the order of the changes."""

    def __init__(self, store: RowStore, keep: KeepRows) -> None:
        self._store = store
        self._keep = keep
        self.unknown = 0
        """How many values could not be completed."""

    def complete(
        self, changes: TableChanges, snapshot_row: Callable[[int, bytes], StoredRow | None], *, is_awaited: bool
    ) -> CompleteChanges:
        """Fill in what is missing; ``is_awaited``: a snapshot of the table has not ended yet.

        ``snapshot_row`` returns what a snapshot has read for a key, if that is the row before the change.
        """
        relation, cells = changes.relation, changes.cells
        keys = key_column(relation, JsonColumns(cells), cells)
        old_keys = changed_keys(changes, keys)
        rows = self._rows_to_visit(changes, old_keys)
        before: list[StoredRow | None] = [None] * cells.row_count if self._keep == "all" else []
        omitted: list[int] = []
        if len(rows):
            names = [column.name for column in relation.columns]
            stored_columns = range(len(names)) if self._keep == "all" else toastable_columns(relation)
            key_list = keys.to_pylist()
            self._store.prefetch(relation.name, {*(key_list[row] for row in rows), *old_keys.values()})
            old_positions = {int(row): index for index, row in enumerate(changes.old_rows)}
            for row in rows:
                key, operation = key_list[row], changes.operations[row]
                old_key = old_keys.get(row, key)
                known = self._store.get(relation.name, old_key)
                sent = self._sent_before(changes, old_positions.get(row), row)
                last = sent or known or (None if operation == READ else snapshot_row(row, old_key))
                if before and operation != READ:
                    before[row] = last
                if (operation == DELETE or old_key != key) and known is not None:
                    self._store.remove(relation.name, old_key)
                if operation == DELETE:
                    continue
                if not self._fill(cells, row, names, last):
                    if is_awaited and known is None and old_key == key:  # a new key may be one that it has passed
                        omitted.append(row)
                        continue
                    self.unknown += 1
                self._store.put(relation.name, key, _known_values(cells, row, names, stored_columns))
        return CompleteChanges(changes, keys, old_keys, before, omitted)

    def truncated(self, run: TruncateRun) -> CompleteChanges:
        """Remove all rows of a table, and return that as a delete of each."""
        relation = run.relation
        stored = dict(self._store.all_rows(relation.name))
        for key in stored:
            self._store.remove(relation.name, key)
        rows: list[StoredRow | None] = list(stored.values())
        changes = changes_of_cells(
            relation,
            cells_of_stored(relation, rows),
            DELETE,
            time=run.time,
            lsn=run.lsn,
            transaction=run.transaction,
        )
        return CompleteChanges(changes, binary_column(list(stored)), {}, rows, [])

    def _rows_to_visit(self, changes: TableChanges, old_keys: dict[int, bytes]) -> list[int]:
        """Return the rows that read or write the store."""
        if self._keep == "all":
            return list(range(changes.cells.row_count))
        columns = [changes.cells.columns[index] for index in toastable_columns(changes.relation)]
        if not columns:
            return []
        visited = np.sum([column.lengths for column in columns], axis=0) >= _MIN_TOASTED_BYTES
        for column in columns:
            visited |= column.kinds == UNCHANGED
        visited |= changes.operations == DELETE
        visited[list(old_keys)] = True
        rows: list[int] = np.flatnonzero(visited).tolist()
        return rows

    def _sent_before(self, changes: TableChanges, old_position: int | None, row: int) -> StoredRow | None:
        """Return the whole row before a change if the server sent it, which it does for a full identity."""
        if changes.relation.identity != FULL_IDENTITY or changes.operations[row] == READ:
            return None
        names = [column.name for column in changes.relation.columns]
        if changes.operations[row] == DELETE:
            return dict(zip(names, changes.cells.row(row), strict=True))
        if old_position is None or changes.old is None:
            return None
        return dict(zip(names, changes.old.row(old_position), strict=True))

    def _fill(self, cells: Cells, row: int, names: Sequence[str], known: StoredRow | None) -> bool:
        """Fill in the unchanged values of a row; False if some are not known."""
        is_complete = True
        for index, column in enumerate(cells.columns):
            if column.kinds[row] == UNCHANGED:
                if known is None or names[index] not in known:
                    is_complete = False
                else:
                    cells.set(row, index, known[names[index]])
        return is_complete


def _known_values(cells: Cells, row: int, names: Sequence[str], columns: Sequence[int]) -> StoredRow:
    """Return the texts of a row; a value that is not known stays so, and does not become null."""
    texts = cells.row(row)
    return {names[index]: texts[index] for index in columns if cells.columns[index].kinds[row] != UNCHANGED}
