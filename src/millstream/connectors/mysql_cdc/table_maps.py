"""The event that describes a table before its rows, with the names of columns (``binlog_row_metadata = FULL``)."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import msgspec

from millstream.connectors.mysql_cdc.bytes_reading import read_bytes, read_integer, read_integers
from millstream.connectors.mysql_cdc.events import HEADER_BYTES
from millstream.errors import ConnectorError

TINY, SHORT, LONG, FLOAT, DOUBLE, TIMESTAMP, LONGLONG, INT24, DATE, TIME, DATETIME, YEAR = (
    1, 2, 3, 4, 5, 7, 8, 9, 10, 11, 12, 13,
)  # fmt: skip
VARCHAR, BIT, TIMESTAMP2, DATETIME2, TIME2, VECTOR, JSON, NEWDECIMAL = 15, 16, 17, 18, 19, 242, 245, 246
ENUM, SET, BLOB, VAR_STRING, STRING, GEOMETRY = 247, 248, 252, 253, 254, 255

_METADATA_BYTES = {
    **dict.fromkeys((FLOAT, DOUBLE, TIMESTAMP2, DATETIME2, TIME2, VECTOR, JSON, BLOB, GEOMETRY), 1),
    **dict.fromkeys((VARCHAR, BIT, NEWDECIMAL, ENUM, SET, VAR_STRING, STRING), 2),
}
_NUMERIC = frozenset({TINY, SHORT, INT24, LONG, LONGLONG, NEWDECIMAL, FLOAT, DOUBLE, YEAR})
_CHARACTER = frozenset({STRING, VAR_STRING, VARCHAR, BLOB})
_SIGNEDNESS, _DEFAULT_CHARSET, _COLUMN_CHARSET, _NAMES, _SETS, _ENUMS, _KEY, _PREFIX_KEY = 1, 2, 3, 4, 5, 6, 8, 9
_ENUM_DEFAULT_CHARSET, _ENUM_CHARSET = 10, 11


class MapColumn(msgspec.Struct, frozen=True):
    """A column of a table map."""

    name: str
    type: int
    size: int = 0
    """Of a text or a decimal its longest length, of a time its decimals, of a blob the bytes of its length."""
    scale: int = 0
    is_unsigned: bool = False
    collation: int = 0
    is_key: bool = False
    values: tuple[bytes, ...] = ()
    """Of an ENUM or SET, in its own character set."""


class TableMap(msgspec.Struct, frozen=True):
    """A table at some time."""

    database: str
    table: str
    columns: tuple[MapColumn, ...]


class _OptionalFields(dict[int, bytes]):
    """The optional fields of a table map, by their type."""


def parse_name(event: bytes) -> tuple[str, str]:
    """Return the database and the name of a table."""
    at = HEADER_BYTES + 8
    database, at = read_bytes(event, at)
    table, _ = read_bytes(event, at + 1)
    return database.decode(), table.decode()


def parse_table_map(event: bytes, *, is_mariadb: bool) -> TableMap:
    """Read the description of a table."""
    database, table = parse_name(event)
    at = HEADER_BYTES + 8 + 1 + len(database.encode()) + 1 + 1 + len(table.encode()) + 1
    count, at = read_integer(event, at)
    types = event[at : at + count]
    metadata, at = read_bytes(event, at + count)
    at += (count + 7) // 8
    columns = _with_metadata(types, metadata)
    fields = _OptionalFields()
    while at < len(event):
        kind = event[at]
        fields[kind], at = read_bytes(event, at + 1)
    if _NAMES not in fields:
        raise ConnectorError(
            f"the binary log has no names of the columns of {database}.{table}",
            hint="set binlog_row_metadata = FULL, and reset the source, which reads all tables again",
        )
    return TableMap(database, table, tuple(_described(columns, fields, is_mariadb=is_mariadb)))


def _with_metadata(types: bytes, metadata: bytes) -> list[dict[str, Any]]:
    columns, at = [], 0
    for type_id in types:
        size = _METADATA_BYTES.get(type_id, 0)
        columns.append(_typed(type_id, metadata[at : at + size]))
        at += size
    return columns


def _typed(type_id: int, metadata: bytes) -> dict[str, Any]:
    if type_id in (STRING, ENUM, SET):
        real, low = metadata
        if real & 0x30 != 0x30:  # two bits of a long length
            return {"type": real | 0x30, "size": low | ((real & 0x30) ^ 0x30) << 4}
        return {"type": real, "size": low}
    if type_id in (VARCHAR, VAR_STRING):
        return {"type": type_id, "size": int.from_bytes(metadata, "little")}
    if type_id == BIT:
        return {"type": type_id, "size": metadata[1] * 8 + metadata[0]}
    if type_id == NEWDECIMAL:
        return {"type": type_id, "size": metadata[0], "scale": metadata[1]}
    return {"type": type_id, "size": metadata[0] if metadata else 0}


def _described(columns: list[dict[str, Any]], fields: _OptionalFields, *, is_mariadb: bool) -> list[MapColumn]:
    """Add names, signs, character sets, values and keys."""
    at = 0
    for column in columns:
        name, at = read_bytes(fields[_NAMES], at)
        column["name"] = name.decode()
    for number, column in enumerate(_of(columns, _NUMERIC.__contains__)):
        data = fields.get(_SIGNEDNESS, b"")
        column["is_unsigned"] = number // 8 < len(data) and bool(data[number // 8] & 0x80 >> number % 8)
    character = {*_CHARACTER, *([GEOMETRY] if is_mariadb else [])}
    _set_collations(_of(columns, character.__contains__), fields.get(_DEFAULT_CHARSET), fields.get(_COLUMN_CHARSET))
    choices = _of(columns, (ENUM, SET).__contains__)
    _set_collations(choices, fields.get(_ENUM_DEFAULT_CHARSET), fields.get(_ENUM_CHARSET))
    _set_values(_of(columns, (ENUM,).__contains__), fields.get(_ENUMS, b""))
    _set_values(_of(columns, (SET,).__contains__), fields.get(_SETS, b""))
    keys: Collection[int] = read_integers(fields.get(_KEY, b"")) or read_integers(fields.get(_PREFIX_KEY, b""))[::2]
    for index in keys:
        columns[index]["is_key"] = True
    return [MapColumn(**column) for column in columns]


def _of(columns: list[dict[str, Any]], is_wanted: Callable[[int], bool]) -> list[dict[str, Any]]:
    return [column for column in columns if is_wanted(column["type"])]


def _set_collations(columns: list[dict[str, Any]], default: bytes | None, each: bytes | None) -> None:
    if each is not None:
        for column, collation in zip(columns, read_integers(each), strict=True):
            column["collation"] = collation
    elif default is not None:
        collation, *pairs = read_integers(default)
        others = dict(zip(pairs[::2], pairs[1::2], strict=True))
        for number, column in enumerate(columns):
            column["collation"] = others.get(number, collation)


def _set_values(columns: list[dict[str, Any]], data: bytes) -> None:
    at = 0
    for column in columns:
        count, at = read_integer(data, at)
        values = []
        for _ in range(count):
            value, at = read_bytes(data, at)
            values.append(value)
        column["values"] = tuple(values)
