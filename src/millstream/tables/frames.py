"""Rows of a table as columns, for Arrow, pandas, polars and for tables on a page."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec

from millstream.errors import DefinitionError
from millstream.foundation.object_codec import encode_key
from millstream.foundation.value_columns import fields_of, spread
from millstream.records import Windowed

if TYPE_CHECKING:
    from millstream.tables.rows import Row

_WINDOW_TIMES = ("window_start", "window_end")
_MAX_MS = 253_402_300_799_999  # the end of the year 9999; windows without an end, for example, are later


def in_order(rows: Iterable[Row]) -> list[Row]:
    """Return rows by key; windows by their start, then by key."""

    def position(row: Row) -> tuple[int, bytes]:
        key = row.key
        return (key.start, encode_key(key.key)) if isinstance(key, Windowed) else (0, encode_key(key))

    return sorted(rows, key=position)


def columns_of(rows: Sequence[Row], *, windowed: bool, value_type: Any = None) -> dict[str, list[Any]]:
    """Return ``key``, for windows ``window_start`` and ``window_end``, the value, and ``timestamp``.

    A value with fields has a column for each field, other values have the column ``value``; a key with fields has
    columns such as ``key.user``. Fields have the names that they have in topics; one whose name is taken becomes
    ``value.key``. What a row lacks is None. Without rows, the fields are those of ``value_type``.
    """
    keys = [row.key.key if windowed else row.key for row in rows]
    columns = spread([fields_of("key", key, "key.") for key in keys], ["key"])
    if windowed:
        columns["window_start"] = [moment(row.key.start) for row in rows]
        columns["window_end"] = [moment(row.key.end) for row in rows]
    taken = {*columns, "timestamp"}
    values = spread([fields_of("value", row.value) for row in rows], _declared_fields(value_type) or ["value"])
    columns.update({f"value.{name}" if name in taken else name: cells for name, cells in values.items()})
    columns["timestamp"] = [moment(row.timestamp) for row in rows]
    return columns


def _declared_fields(kind: Any) -> list[str]:
    """Return the names of the fields of a type, empty if it has none."""
    try:
        info = msgspec.inspect.type_info(kind)
    except TypeError:
        return []
    return [field.encode_name for field in getattr(info, "fields", ())]


def moment(milliseconds: int) -> datetime | None:
    """Return a timestamp as a datetime in UTC; None if there is no such date."""
    if not 0 <= milliseconds <= _MAX_MS:
        return None
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


def arrow_table(table: str, columns: dict[str, list[Any]], *, windowed: bool) -> Any:
    """Return columns as a ``pyarrow.Table``; times are timestamps in UTC."""
    times = ("timestamp", *_WINDOW_TIMES) if windowed else ("timestamp",)
    pa = importlib.import_module("pyarrow")
    arrays = {}
    for name, cells in columns.items():
        kind = pa.timestamp("ms", tz="UTC") if name in times else None
        try:
            arrays[name] = pa.array(cells, kind)
        except (pa.ArrowException, TypeError, OverflowError) as error:
            raise DefinitionError(
                f"column {name!r} of table {table!r} has values of several types: {error}",
                hint="read the rows with scan(), or declare a type with value= where the table is defined",
            ) from error
    return pa.table(arrays)
