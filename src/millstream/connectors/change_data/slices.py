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

_BINARY, _VIEWS = pa.binary(), pa.binary_view()
_INLINE_BYTES = 12
_PADDING = bytes(32)
"""After the last byte: a view may reach behind it, and the slice of a null may even begin there."""
_MAX_BYTES = 1 << 31
"""Arrow's offsets are 32-bit."""


class SliceColumn(NamedTuple):
    """One slice per row; a length, or both, may be a number that is the same for all rows."""

    starts: Any
    lengths: Any


class SliceBuffer:
    """Bytes that slices point into; literals are appended to them."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.array = np.frombuffer(data + _PADDING, np.uint8)
        """All bytes that can be read, and the padding."""
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
        data, all_ends = self.gather(pieces, rows, nulls)
        ends = np.ascontiguousarray(all_ends[:: len(pieces)])
        valid = None if nulls is None else pa.py_buffer(np.packbits(~nulls, bitorder="little"))
        return pa.Array.from_buffers(_BINARY, rows, [valid, pa.py_buffer(ends), data])

    def gather(self, pieces: Sequence[SliceColumn], rows: int, left_out: Any = None) -> tuple[pa.Buffer, Any]:
        """Return the slices of all rows, one after the other without gaps, and the end of each slice after a zero.

        Arrow copies them: a slice is what its type of views is made of, and casting views to plain bytes copies each
        in one piece. A view of up to 12 bytes has the bytes inside.
        """
        whole = self._bytes_of(pieces)
        windows = np.ndarray(len(whole) - _INLINE_BYTES + 1, f"V{_INLINE_BYTES}", whole, strides=(1,))
        views = np.zeros((rows, len(pieces), 4), np.int32)
        for number, (starts, lengths) in enumerate(pieces):
            view = views[:, number]
            if isinstance(starts, int) and isinstance(lengths, int):
                view[:] = _view(starts, lengths, whole)
                continue
            view[:, 0], view[:, 3] = lengths, starts
            is_short = np.broadcast_to(lengths, rows) <= _INLINE_BYTES
            if is_short.all():
                view[:, 1:] = windows[starts].view(np.int32).reshape(-1, 3)
            elif is_short.any():
                short = np.flatnonzero(is_short)
                view[short, 1:] = windows[starts[short]].view(np.int32).reshape(-1, 3)
        if left_out is not None:
            views[left_out] = 0
        total = int(views[:, :, 0].sum(dtype=np.int64))
        if max(total, len(whole)) >= _MAX_BYTES:
            raise OverflowError(f"{rows} rows of {total} bytes are too long for a block")
        buffers = [None, pa.py_buffer(views), pa.py_buffer(whole)]
        copied = pa.Array.from_buffers(_VIEWS, rows * len(pieces), buffers).cast(_BINARY)
        return copied.buffers()[2], np.frombuffer(copied.buffers()[1], np.int32)[: rows * len(pieces) + 1]

    def whole(self) -> Any:
        """Return all bytes, literals included, and the padding."""
        if self._tail:
            tail = b"".join([*self._tail, _PADDING])
            self.array = np.concatenate([self.array[: -len(_PADDING)], np.frombuffer(tail, np.uint8)])
            self._tail = []
        return self.array

    def _bytes_of(self, pieces: Sequence[SliceColumn]) -> Any:
        """Return bytes that have all of the slices: those without the last literals save a copy."""
        end = len(self.array) - len(_PADDING)
        return self.array if all(np.max(starts, initial=0) < end for starts, _ in pieces) else self.whole()


def _view(start: int, length: int, data: Any) -> Any:
    """Return the view of one slice."""
    view = np.array([length, 0, 0, start], np.int32)
    if length <= _INLINE_BYTES:
        view[1:] = data[start : start + _INLINE_BYTES].view(np.int32)
    return view
