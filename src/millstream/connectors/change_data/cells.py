"""Rows as columns of cells: slices of one buffer, each a value as text, null, or a value that was not sent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from millstream.connectors.change_data.slices import SliceBuffer, SliceColumn

VALUE, NULL, UNCHANGED = ord("t"), ord("n"), ord("u")
"""Unchanged: a value that is stored outside its row (TOAST) and was not sent, since the update did not touch it."""


class CellColumn(NamedTuple):
    """The cells of one column."""

    starts: Any
    lengths: Any
    kinds: Any

    @property
    def slices(self) -> SliceColumn:
        return SliceColumn(self.starts, self.lengths)

    def take(self, rows: Any) -> CellColumn:
        return CellColumn(self.starts[rows], self.lengths[rows], self.kinds[rows])


class Cells(NamedTuple):
    """The cells of all columns, in the order of the columns."""

    buffer: SliceBuffer
    columns: list[CellColumn]
    row_count: int

    def row(self, index: int) -> list[bytes | None]:
        """Return the texts of one row; an unchanged cell is None here too."""
        at = self.buffer.bytes_at
        return [
            at(int(column.starts[index]), int(column.lengths[index])) if column.kinds[index] == VALUE else None
            for column in self.columns
        ]

    def take(self, rows: Any) -> Cells:
        return Cells(self.buffer, [column.take(rows) for column in self.columns], len(rows))

    def set(self, row: int, column: int, text: bytes | None) -> None:
        """Replace a cell."""
        cells = self.columns[column]
        cells.kinds[row] = NULL if text is None else VALUE
        cells.lengths[row] = 0 if text is None else len(text)
        if text is not None:
            cells.starts[row] = self.buffer.add(text)


def cells_of_rows(rows: Sequence[Sequence[bytes | None]], columns: int) -> Cells:
    """Return the cells of rows that are given as texts."""
    buffer = SliceBuffer(b"".join(cell for row in rows for cell in row if cell is not None))
    lengths = np.array([[0 if cell is None else len(cell) for cell in row] for row in rows], np.int64)
    lengths = lengths.reshape(len(rows), columns)
    kinds = np.array([[NULL if cell is None else VALUE for cell in row] for row in rows], np.uint8)
    kinds = kinds.reshape(len(rows), columns)
    starts = (np.cumsum(lengths.ravel()) - lengths.ravel()).reshape(len(rows), columns)
    made = [
        CellColumn(starts[:, index].copy(), lengths[:, index].copy(), kinds[:, index].copy())
        for index in range(columns)
    ]
    return Cells(buffer, made, len(rows))
