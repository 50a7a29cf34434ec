"""Columns of MySQL as columns of a relation, from the binary log and from the catalog."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from millstream.connectors.change_data.relation import RelationColumn
from millstream.connectors.change_data.texts import BITS, DURATION, RAW_BYTES, UTC_TIMESTAMP
from millstream.connectors.mysql_cdc import table_maps as types
from millstream.connectors.mysql_cdc.charsets import BINARY
from millstream.connectors.mysql_cdc.connection import quoted
from millstream.connectors.mysql_cdc.row_values import double_text, float_text
from millstream.connectors.mysql_cdc.table_maps import MapColumn

_INTEGER, _NUMBER, _DECIMAL, _TEXT, _JSON, _DATE, _DATETIME = 20, 701, 1700, 25, 114, 1082, 1114
_LOGGED = {
    **dict.fromkeys((types.TINY, types.SHORT, types.LONG, types.LONGLONG, types.INT24, types.YEAR), _INTEGER),
    **dict.fromkeys((types.FLOAT, types.DOUBLE), _NUMBER),
    types.NEWDECIMAL: _DECIMAL,
    types.BIT: BITS,
    types.DATE: _DATE,
    types.DATETIME2: _DATETIME,
    types.TIMESTAMP2: UTC_TIMESTAMP,
    types.TIME2: DURATION,
    types.JSON: _JSON,
    types.GEOMETRY: RAW_BYTES,
    types.VECTOR: RAW_BYTES,
}
_DECLARED = {
    **dict.fromkeys(("tinyint", "smallint", "mediumint", "int", "bigint", "year"), _INTEGER),
    **dict.fromkeys(("float", "double"), _NUMBER),
    "decimal": _DECIMAL,
    "bit": BITS,
    "date": _DATE,
    "datetime": _DATETIME,
    "timestamp": UTC_TIMESTAMP,
    "time": DURATION,
    "json": _JSON,
    **dict.fromkeys(("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob", "vector"), RAW_BYTES),
    **dict.fromkeys(("geometry", "point", "linestring", "polygon", "multipoint", "multilinestring"), RAW_BYTES),
    **dict.fromkeys(("multipolygon", "geometrycollection", "geomcollection"), RAW_BYTES),
    **dict.fromkeys(("char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum", "set"), _TEXT),
}
UNSORTED = ("enum", "set", "bit", "float", "double", "json")
"""Types by which a snapshot cannot be read in order."""


def logged_column(column: MapColumn) -> RelationColumn:
    """Return a column of the binary log."""
    type_id = _LOGGED.get(column.type, _TEXT)
    if column.collation == BINARY and column.type not in (types.ENUM, types.SET):
        type_id = RAW_BYTES
    return RelationColumn(column.name, type_id, _modifier(type_id, column.size, column.scale), column.is_key)


def _modifier(type_id: int, size: int, scale: int) -> int:
    """Return what Debezium's way to write a value depends on."""
    if type_id == _DECIMAL:
        return size << 16 | scale
    return size if type_id in (_DATETIME, BITS) else -1


class DeclaredColumn(NamedTuple):
    """A column of the catalog."""

    column: RelationColumn
    declared: str
    expression: str
    """What a snapshot selects, whose text is that of the binary log after ``change``."""
    change: Callable[[bytes], bytes] | None


def is_known(declared: str) -> bool:
    """Return whether a type can be read; others have a form of their own in the log."""
    return declared in _DECLARED


def declared_column(row: Mapping[str, str]) -> DeclaredColumn:
    """Return a column of ``information_schema.columns``."""
    name, declared = row["column_name"], row["data_type"].lower()
    type_id = _DECLARED.get(declared, _TEXT)
    size = int(row["datetime_precision"] or row["numeric_precision"] or 0)
    modifier = _modifier(type_id, size, int(row["numeric_scale"] or 0))
    expression, change = quoted(name), None
    if declared == "bit":
        expression = f"LPAD(BIN({expression} + 0), {size}, '0')"
    elif declared == "year":
        expression = f"{expression} + 0"
    elif declared == "float":
        expression, change = f"CAST({expression} AS DOUBLE)", _float
    elif declared == "double":
        change = _double
    elif declared == "timestamp":
        change = _utc
    return DeclaredColumn(
        RelationColumn(name, type_id, modifier, row["column_key"] == "PRI"), declared, expression, change
    )


def _float(text: bytes) -> bytes:
    return float_text(float(text))


def _double(text: bytes) -> bytes:
    return double_text(float(text))


def _utc(text: bytes) -> bytes:
    return text + b"+00"
