"""Rows of a table as columns, for Arrow, pandas, polars and for tables on a page."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import msgspec

from millstream.errors import DefinitionError
from millstream.foundation.object_codec import encode_key
from millstream.records import Windowed

if TYPE_CHECKING:
    from millstream.tables.rows import Row

_KEPT = (datetime, date, time, timedelta, Decimal, bytes)
"""Types that data frames have too; other objects become plain data."""
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
    columns = _spread([_fields("key", key, "key.") for key in keys], ["key"])
    if windowed:
        columns["window_start"] = [moment(row.key.start) for row in rows]
        columns["window_end"] = [moment(row.key.end) for row in rows]
    taken = {*columns, "timestamp"}
    values = _spread([_fields("value", row.value) for row in rows], _declared_fields(value_type) or ["value"])
    columns.update({f"value.{name}" if name in taken else name: cells for name, cells in values.items()})
    columns["timestamp"] = [moment(row.timestamp) for row in rows]
    return columns


def _fields(name: str, value: Any, prefix: str = "") -> dict[str, Any]:
    if isinstance(value, msgspec.Struct):  # field by field: defaults may be left out, and fields may be an array
        config = value.__struct_config__
        tag = {} if config.tag is None else {str(config.tag_field): config.tag}
        names = zip(value.__struct_encode_fields__, value.__struct_fields__, strict=True)
        plain: Any = {**tag, **{encoded: _plain(getattr(value, field)) for encoded, field in names}}
    else:
        plain = _plain(value)
    if isinstance(plain, dict) and plain:
        return {f"{prefix}{field}": cell for field, cell in plain.items()}
    return {name: plain}


def _plain(value: Any) -> Any:
    return msgspec.to_builtins(value, builtin_types=_KEPT, str_keys=True, enc_hook=repr)


def _declared_fields(kind: Any) -> list[str]:
    """Return the names of the fields of a type, empty if it has none."""
    try:
        info = msgspec.inspect.type_info(kind)
    except TypeError:
        return []
    return [field.encode_name for field in getattr(info, "fields", ())]


def _spread(rows: list[dict[str, Any]], otherwise: list[str]) -> dict[str, list[Any]]:
    """Return the columns of rows, in the order in which they first appear; without rows, those of ``otherwise``."""
    names = dict.fromkeys(field for fields in rows for field in fields) or dict.fromkeys(otherwise)
    return {field: [fields.get(field) for fields in rows] for field in names}


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


def library(name: str, verb: str) -> Any:
    """Return an optional library, or say how to install it."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        raise DefinitionError(
            f"{verb}() needs {name}, which is not installed",
            hint=f"install it with: pip install 'millstream[{name}]'",
        ) from error
