"""Columns of cells as JSON, for all rows at once.

Numbers, texts, times and booleans are slices of what the server sent. Values that need more, such as texts with
quotes, arrays and bytes, are rendered one by one and appended to the buffer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from millstream.connectors.change_data.cells import UNCHANGED, VALUE, CellColumn, Cells
from millstream.connectors.change_data.relation import RelationColumn
from millstream.connectors.change_data.slices import SliceColumn
from millstream.connectors.change_data.texts import (
    BOOL,
    INTEGERS,
    ROW_TYPES,
    TIMESTAMPS,
    UTC_TIMESTAMP,
    Render,
    encode_json,
    render_text,
    renderer,
)

Pieces: TypeAlias = list[SliceColumn]
"""Slices that are written one after the other."""

UNKNOWN = b'"__debezium_unavailable_value"'
_JSON_TYPES = frozenset({114, 3802})
_NUMBERS = frozenset({700, 701, 1700})
_SECONDS_END = len("2000-01-01 00:00:00")
_DATE_END = len("2000-01-01")
_NO_ROWS = np.arange(0)


class JsonColumns:
    """Renders columns of one set of cells."""

    def __init__(self, cells: Cells, types: dict[int, Render] = ROW_TYPES) -> None:
        self._cells = cells
        self._types = types
        self._data = cells.buffer.whole()
        self._escaped: dict[int, Any] = {}
        """The rows whose texts need escapes, by column."""

    def objects(self, columns: Sequence[RelationColumn], indexes: Sequence[int]) -> Pieces:
        """Return JSON objects with some of the columns; a value that is not known is Debezium's placeholder."""
        pieces: Pieces = []
        after = b""
        self._find_escaped([index for index in indexes if self._is_text(columns[index].type)])
        for number, index in enumerate(indexes):
            before = after + (b"," if number else b"{") + encode_json(columns[index].name) + b":"
            part, after = self._values(index, columns[index].type, before)
            pieces += part
        return [*pieces, self._cells.buffer.literal(after + (b"}" if indexes else b"{}"))]

    def values(self, index: int, type_id: int, before: bytes) -> Pieces:
        """Return the values of a column as JSON, each after the bytes ``before``."""
        pieces, after = self._values(index, type_id, before)
        return [*pieces, self._cells.buffer.literal(after)] if after else pieces

    def _values(self, index: int, type_id: int, before: bytes) -> tuple[Pieces, bytes]:
        """Return the pieces of a column, and what is still to be written after each row of it."""
        column, buffer = self._cells.columns[index], self._cells.buffer
        kinds = column.kinds
        present, quotes = self._present(index, type_id)
        if (kinds == VALUE).all():
            return [buffer.literal(before + quotes[0]), *present], quotes[1]
        is_null, rows = kinds != VALUE, self._cells.row_count
        head = buffer.constant(before + quotes[0], rows)
        tail = [buffer.constant(quotes[1], rows)] if quotes[1] else []
        _replace(head, is_null, buffer.add(before + b"null"), len(before) + 4)
        is_unknown = kinds == UNCHANGED
        if is_unknown.any():
            _replace(head, is_unknown, buffer.add(before + UNKNOWN), len(before) + len(UNKNOWN))
        blanked = [SliceColumn(piece.starts, np.where(is_null, 0, piece.lengths)) for piece in (*present, *tail)]
        return [head, *blanked], b""

    def texts(self, index: int) -> Pieces:
        """Return the values of a column as they are."""
        return [self._cells.columns[index].slices]

    def _present(self, index: int, type_id: int) -> tuple[Pieces, tuple[bytes, bytes]]:
        """Return the pieces of the values that are not null, and what is written before and after each."""
        column = self._cells.columns[index]
        fast = _FAST.get(type_id)
        if fast is not None and self._types.get(type_id) is ROW_TYPES.get(type_id):
            return fast(self, column)
        if self._is_text(type_id):
            return self._strings(index)
        return self._one_by_one(column, renderer(type_id, self._types)), (b"", b"")

    def _as_they_are(self, column: CellColumn) -> tuple[Pieces, tuple[bytes, bytes]]:
        return [column.slices], (b"", b"")

    def _numbers(self, column: CellColumn) -> tuple[Pieces, tuple[bytes, bytes]]:
        [others] = self._rows_with([column], _are_not_digits)
        return self._rendered_where(column, others, renderer(1700)), (b"", b"")

    def _booleans(self, column: CellColumn) -> tuple[Pieces, tuple[bytes, bytes]]:
        buffer = self._cells.buffer
        true, false = buffer.add(b"true"), buffer.add(b"false")
        is_true = self._data[np.where(column.kinds == VALUE, column.starts, 0)] == ord("t")
        return [SliceColumn(np.where(is_true, true, false), np.where(is_true, 4, 5))], (b"", b"")

    def _strings(self, index: int) -> tuple[Pieces, tuple[bytes, bytes]]:
        if index not in self._escaped:
            self._find_escaped([index])
        column, escaped = self._cells.columns[index], self._escaped[index]
        return self._rendered_where(column, escaped, lambda text: render_text(text)[1:-1]), (b'"', b'"')

    def _is_text(self, type_id: int) -> bool:
        """Return whether values are written as strings, as they are or with escapes."""
        return type_id not in self._types and type_id not in ROW_TYPES and renderer(type_id) is render_text

    def _find_escaped(self, indexes: Sequence[int]) -> None:
        """Look at the texts of several columns together, which are copied for it."""
        if indexes:
            columns = [self._cells.columns[index] for index in indexes]
            self._escaped.update(zip(indexes, self._rows_with(columns, _need_escape), strict=True))

    def _timestamps(self, column: CellColumn) -> tuple[Pieces, tuple[bytes, bytes]]:
        """Write a T between date and time and a Z at the end."""
        data, has_value = self._data, column.kinds == VALUE
        starts, lengths = column.starts, column.lengths
        usual = has_value & (lengths >= _SECONDS_END)
        middle = np.where(usual, starts + _DATE_END, 0)
        last = np.where(usual, starts + lengths - 1, 0)
        usual &= (data[middle] == ord(" ")) & (data[last] != ord("C"))
        has_zone = usual & (data[last - 2] == ord("+"))
        buffer, count = self._cells.buffer, self._cells.row_count
        if has_zone.all():
            time = SliceColumn(starts + _DATE_END + 1, lengths - _DATE_END - 4)
            return [SliceColumn(starts, _DATE_END), buffer.literal(b"T"), time], (b'"', b'Z"')
        date = SliceColumn(starts.copy(), np.where(usual, _DATE_END, 0))
        between = buffer.constant(b"T", count)
        time = SliceColumn(starts + _DATE_END + 1, np.where(usual, lengths - _DATE_END - 1 - 3 * has_zone, 0))
        zone = buffer.constant(b"Z", count)
        between.lengths[~usual] = 0
        zone.lengths[~has_zone] = 0
        unusual = np.flatnonzero(has_value & ~usual)
        for row in unusual.tolist():
            text = renderer(1114)(buffer.bytes_at(int(starts[row]), int(lengths[row])))[1:-1]
            date.starts[row], date.lengths[row] = buffer.add(text), len(text)
        return [date, between, time, zone], (b'"', b'"')

    def _one_by_one(self, column: CellColumn, render: Render) -> Pieces:
        return self._rendered_where(column, np.flatnonzero(column.kinds == VALUE), render)

    def _rendered_where(self, column: CellColumn, rows: Any, render: Render) -> Pieces:
        """Return the cells as they are, except for some rows."""
        starts, lengths = column.slices
        if len(rows):
            starts, lengths, buffer = starts.copy(), lengths.copy(), self._cells.buffer
            texts = [render(buffer.bytes_at(int(starts[row]), int(lengths[row]))) for row in rows.tolist()]
            starts[rows], lengths[rows] = buffer.column(texts)
        return [SliceColumn(starts, lengths)]

    def _rows_with(self, columns: Sequence[CellColumn], flags: Callable[[Any], Any]) -> list[Any]:
        """Return the rows whose cell contains a flagged byte, for each column."""
        count = len(columns)
        data, ends = self._cells.buffer.gather([column.slices for column in columns], self._cells.row_count)
        flagged = flags(np.frombuffer(data, np.uint8))
        if not flagged.any():
            return [_NO_ROWS] * count
        cells = np.unique(np.searchsorted(ends, np.flatnonzero(flagged), side="right") - 1)
        return [cells[cells % count == number] // count for number in range(count)]


def _need_escape(data: Any) -> Any:
    return (data < ord(" ")) | (data == ord('"')) | (data == ord("\\"))


def _are_not_digits(data: Any) -> Any:
    """Digits, signs and dots are between a minus and a nine, as is a slash, which no number has."""
    return (data < ord("-")) | (data > ord("9"))


def _replace(piece: SliceColumn, rows: Any, start: int, length: int) -> None:
    piece.starts[rows] = start
    piece.lengths[rows] = length


_Fast: TypeAlias = Callable[[JsonColumns, CellColumn], tuple[Pieces, tuple[bytes, bytes]]]
_FAST: dict[int, _Fast] = {
    **dict.fromkeys(INTEGERS | _JSON_TYPES, JsonColumns._as_they_are),
    **dict.fromkeys(_NUMBERS, JsonColumns._numbers),
    **dict.fromkeys(TIMESTAMPS | {UTC_TIMESTAMP}, JsonColumns._timestamps),
    BOOL: JsonColumns._booleans,
}
