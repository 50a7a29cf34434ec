"""Values of the binary log as texts, as the server would write them; a function per column is made once per table."""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Final, TypeAlias

import numpy as np

from millstream.connectors.mysql_cdc import table_maps as types
from millstream.connectors.mysql_cdc.charsets import BINARY, Charsets, ToUtf8
from millstream.connectors.mysql_cdc.decimals import decimal_value
from millstream.connectors.mysql_cdc.json_binary import json_text
from millstream.connectors.mysql_cdc.table_maps import MapColumn
from millstream.connectors.mysql_cdc.temporal_values import date_value, datetime_value, time_value, timestamp_value
from millstream.errors import ConnectorError

ReadValue: TypeAlias = Callable[[bytes, int], tuple[bytes, int]]
"""Takes bytes and a position, and returns the text of a value and where it ends."""

_INTEGERS = {types.TINY: (1, "b"), types.SHORT: (2, "h"), types.LONG: (4, "i"), types.LONGLONG: (8, "q")}
_LONG_LENGTH: Final = 255


def value_reader(column: MapColumn, charsets: Charsets) -> ReadValue:
    """Return what reads the values of a column."""
    kind = column.type
    if kind in _INTEGERS:
        size, code = _INTEGERS[kind]
        return _number(Struct("<" + (code.upper() if column.is_unsigned else code)), size)
    if kind == types.NEWDECIMAL:
        return decimal_value(column.size, column.scale)
    if kind in (types.VARCHAR, types.VAR_STRING, types.STRING):
        return _text(column, 2 if column.size > _LONG_LENGTH else 1, charsets)
    if kind == types.BLOB:
        return _text(column, column.size, charsets)
    if kind in (types.GEOMETRY, types.VECTOR):
        return _sized(column.size, None)
    if kind == types.JSON:
        return _sized(column.size, json_text)
    if kind in (types.ENUM, types.SET):
        return _choice(column, charsets)
    simple = {
        types.INT24: _int24(is_unsigned=column.is_unsigned),
        types.FLOAT: _float,
        types.DOUBLE: _double,
        types.YEAR: _year,
        types.BIT: _bits(column.size),
        types.DATE: date_value,
        types.DATETIME2: datetime_value(column.size),
        types.TIMESTAMP2: timestamp_value(column.size),
        types.TIME2: time_value(column.size),
    }
    if kind not in simple:
        raise ConnectorError(
            f"column {column.name!r} has the type {kind} of the binary log, which cannot be read",
            hint="change the type of the column; ALTER TABLE ... FORCE renews old types of times",
        )
    return simple[kind]


def _number(layout: Struct, size: int) -> ReadValue:
    unpack = layout.unpack_from
    return lambda data, at: (b"%d" % unpack(data, at)[0], at + size)


def _int24(*, is_unsigned: bool) -> ReadValue:
    def read(data: bytes, at: int) -> tuple[bytes, int]:
        return b"%d" % int.from_bytes(data[at : at + 3], "little", signed=not is_unsigned), at + 3

    return read


_unpack_float, _unpack_double = Struct("<f").unpack_from, Struct("<d").unpack_from


def float_text(number: float) -> bytes:
    """Return the shortest text of a number of single precision.

    >>> float_text(3.140000104904175), float_text(3.0)
    (b'3.14', b'3')
    """
    return str(np.float32(number)).removesuffix(".0").encode()


def double_text(number: float) -> bytes:
    """Return the shortest text of a number of double precision."""
    return repr(number).removesuffix(".0").encode()


def _float(data: bytes, at: int) -> tuple[bytes, int]:
    return float_text(_unpack_float(data, at)[0]), at + 4


def _double(data: bytes, at: int) -> tuple[bytes, int]:
    return double_text(_unpack_double(data, at)[0]), at + 8


def _year(data: bytes, at: int) -> tuple[bytes, int]:
    return b"%d" % (data[at] and data[at] + 1900), at + 1


def _bits(count: int) -> ReadValue:
    size = (count + 7) // 8

    def read(data: bytes, at: int) -> tuple[bytes, int]:
        return format(int.from_bytes(data[at : at + size], "big"), f"0{count}b").encode(), at + size

    return read


def _sized(length_bytes: int, change: ToUtf8 | None) -> ReadValue:
    """Read bytes after their length."""

    def read(data: bytes, at: int) -> tuple[bytes, int]:
        start = at + length_bytes
        end = start + int.from_bytes(data[at:start], "little")
        value = data[start:end]
        return value if change is None else change(value), end

    return read


def _text(column: MapColumn, length_bytes: int, charsets: Charsets) -> ReadValue:
    if column.collation != BINARY:
        return _sized(length_bytes, charsets.to_utf8(column.collation))
    if column.type == types.STRING:  # the zeros at the end are not in the log
        return _sized(length_bytes, lambda value: value.ljust(column.size, b"\0"))
    return _sized(length_bytes, None)


def _choice(column: MapColumn, charsets: Charsets) -> ReadValue:
    size, to_utf8 = column.size, charsets.to_utf8(column.collation)
    values = [value if to_utf8 is None else to_utf8(value) for value in column.values]
    if column.type == types.ENUM:
        names = [b"", *values]  # 0 is the value of what was not valid
        return lambda data, at: (names[int.from_bytes(data[at : at + size], "little")], at + size)

    def read(data: bytes, at: int) -> tuple[bytes, int]:
        mask = int.from_bytes(data[at : at + size], "little")
        return b",".join(value for number, value in enumerate(values) if mask >> number & 1), at + size

    return read
