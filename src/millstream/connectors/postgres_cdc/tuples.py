"""Rows of the replication stream or of COPY as columns of cells, found for all rows at once.

For each column in turn, the positions of all rows advance together: the kind of the cell, its length, and so on.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from millstream.connectors.change_data.cells import NULL, VALUE, CellColumn, Cells
from millstream.connectors.change_data.slices import SliceBuffer

_TAB, _LINE_FEED, _BACKSLASH = b"\t", b"\n", b"\\"
_ESCAPE = re.compile(rb"\\(.)", re.DOTALL)
_ESCAPED = {b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v"}


def walk_tuples(buffer: SliceBuffer, positions: Any, columns: int) -> tuple[Cells, Any]:
    """Return the cells of tuples that start at some positions, and where each tuple ends."""
    data, count = buffer.array, len(positions)
    positions = positions + 2  # the number of columns
    walked = []
    for _ in range(columns):
        kinds = data[positions]
        has_value = kinds == VALUE
        if has_value.all():
            lengths = _lengths_at(data, positions + 1)
            walked.append(CellColumn(positions + 5, lengths, kinds))
            positions = positions + 5 + lengths
        else:
            lengths = np.zeros(count, np.int64)
            lengths[has_value] = _lengths_at(data, positions[has_value] + 1)
            walked.append(CellColumn(positions + 5, lengths, kinds))
            positions = positions + 1 + np.where(has_value, 4 + lengths, 0)
    return Cells(buffer, walked, count), positions


def _lengths_at(data: Any, positions: Any) -> Any:
    return integers_at(data, positions, ">u4")


def integers_at(data: Any, positions: Any, type: str) -> Any:
    """Return the integers at some positions, which need not be aligned."""
    size = np.dtype(type).itemsize
    return np.ndarray(max(len(data) - size + 1, 0), type, data, strides=(1,))[positions].astype(np.int64)


def cells_of_copy(data: bytes, columns: int) -> Cells:
    """Return the cells of rows in the text format of COPY."""
    buffer = SliceBuffer(data)
    array = buffer.array
    ends = np.flatnonzero((array == _TAB[0]) | (array == _LINE_FEED[0]))
    starts = np.zeros(len(ends), np.int64)
    starts[1:] = ends[:-1] + 1
    lengths = ends - starts
    has_escape = np.zeros(len(ends), bool)
    escapes = np.flatnonzero(array == _BACKSLASH[0])
    has_escape[np.searchsorted(ends, escapes)] = True
    kinds = np.full(len(ends), VALUE, np.uint8)
    for cell in np.flatnonzero(has_escape).tolist():
        text = data[starts[cell] : ends[cell]]
        if text == b"\\N":
            kinds[cell], lengths[cell] = NULL, 0
        else:
            plain = _ESCAPE.sub(lambda match: _ESCAPED.get(match[1], match[1]), text)
            starts[cell], lengths[cell] = buffer.add(plain), len(plain)
    rows = len(ends) // columns
    shaped = [part.reshape(rows, columns) for part in (starts, lengths, kinds)]
    return Cells(buffer, [CellColumn(*(part[:, index].copy() for part in shaped)) for index in range(columns)], rows)
