"""Columns of slices of one buffer, which are joined to strings for all rows at once.

A slice is the start and the length of some bytes. JSON for a million rows is then a matter of choosing slices: of what
the server sent, and of literals such as ``,"name":`` that are appended to the buffer. No string is created per row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from millstream.foundation.blocks import Column

_BINARY = pa.binary()


class SliceColumn(NamedTuple):
    """One slice per row; a number instead of an array is the same for all rows."""

    starts: Any
    lengths: Any


class SliceBuffer:
    """Bytes that slices point into; literals are appended to them."""

    def __init__(self, data: bytes) -> None:
        data = data or b"\0"  # so that every column can look at some byte
        self.data = data
        self.array = np.frombuffer(data, np.uint8)
        self._end = len(data)
        self._tail: list[bytes] = []
        self._literals: dict[bytes, int] = {}

    def add(self, literal: bytes) -> int:
        """Append bytes and return where they start."""
        start = self._end
        self._tail.append(literal)
        self._end += len(literal)
        return start

    def literal(self, literal: bytes) -> SliceColumn:
        """Return the same bytes for all rows."""
        start = self._literals.get(literal)
        if start is None:
            start = self._literals[literal] = self.add(literal)
        return SliceColumn(start, len(literal))

    def constant(self, literal: bytes, rows: int) -> SliceColumn:
        """Return a column with the same bytes in each row, of which some can be replaced."""
        start, length = self.literal(literal)
        return SliceColumn(np.full(rows, start, np.int64), np.full(rows, length, np.int64))

    def column(self, items: Sequence[bytes]) -> SliceColumn:
        """Return a column of separate bytes for each row."""
        lengths = np.fromiter(map(len, items), np.int64, len(items))
        start = self.add(b"".join(items))
        return SliceColumn(start + np.cumsum(lengths) - lengths, lengths)

    def bytes_at(self, start: int, length: int) -> bytes:
        """Return the bytes of a slice."""
        if start < len(self.data):
            return self.data[start : start + length]
        return self.whole()[start : start + length].tobytes()  # type: ignore[no-any-return]

    def join(self, pieces: Sequence[SliceColumn], rows: int, nulls: Any = None) -> Column:
        """Concatenate the slices of each row; rows marked in ``nulls`` become null."""
        starts, lengths = np.empty((2, rows, len(pieces)), np.int64)
        for number, piece in enumerate(pieces):
            starts[:, number], lengths[:, number] = piece
        if nulls is not None:
            lengths[nulls] = 0
        ends = np.zeros(rows + 1, np.int64)
        np.cumsum(lengths.sum(axis=1), out=ends[1:])
        if ends[-1] >= 1 << 31:
            raise OverflowError(f"{rows} rows of {ends[-1]} bytes are too long for a block")
        flat_starts, flat_lengths = starts.ravel(), lengths.ravel()
        targets = np.cumsum(flat_lengths) - flat_lengths
        index = np.repeat(flat_starts - targets, flat_lengths)
        index += _counting(len(index))
        data = self.whole().take(index)
        valid = None if nulls is None else pa.py_buffer(np.packbits(~nulls, bitorder="little"))
        buffers = [valid, pa.py_buffer(ends.astype(np.int32)), pa.py_buffer(data)]
        return pa.Array.from_buffers(_BINARY, rows, buffers)

    def whole(self) -> Any:
        """Return all bytes, literals included."""
        if self._tail:
            self.array = np.concatenate([self.array, np.frombuffer(b"".join(self._tail), np.uint8)])
            self._tail = []
        return self.array


_CACHED = 1 << 21
_numbers: Any = np.arange(0)


def _counting(count: int) -> Any:
    """Return the numbers from 0 on; a usual count of them is made once, since that takes as long as joining."""
    global _numbers  # noqa: PLW0603 - an array that only grows
    if count > _CACHED:
        return np.arange(count)
    if count > len(_numbers):
        _numbers = np.arange(_CACHED)
    return _numbers[:count]
