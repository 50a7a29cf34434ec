"""MySQL's binary form of JSON as text, in the style of the server: a space after commas and colons."""

from __future__ import annotations

import base64
from struct import Struct

import msgspec

from millstream.connectors.mysql_cdc.decimals import decimal_value
from millstream.errors import ConnectorError

_SMALL_OBJECT, _LARGE_OBJECT, _SMALL_ARRAY, _LARGE_ARRAY, _LITERAL = 0, 1, 2, 3, 4
_DOUBLE, _STRING, _OPAQUE = 11, 12, 15
_LITERALS = {0: "null", 1: "true", 2: "false"}
_INTEGERS = {5: Struct("<h"), 6: Struct("<H"), 7: Struct("<i"), 8: Struct("<I"), 9: Struct("<q"), 10: Struct("<Q")}
_INLINED_SMALL, _INLINED_LARGE = frozenset({4, 5, 6}), frozenset({4, 5, 6, 7, 8})
_NEWDECIMAL, _DATE, _TIME, _DATETIMES = 246, 10, 11, (12, 7)
_unpack_double = Struct("<d").unpack_from


def json_text(data: bytes) -> bytes:
    """Return a JSON document as text; an empty one, which old servers write for NULL, is null."""
    return (_value(data[0], data, 1) if data else "null").encode()


def _value(kind: int, data: bytes, at: int) -> str:
    if kind in (_SMALL_OBJECT, _LARGE_OBJECT, _SMALL_ARRAY, _LARGE_ARRAY):
        return _container(kind, data, at)
    if kind == _LITERAL:
        return _LITERALS[data[at]]
    if kind in _INTEGERS:
        return str(_INTEGERS[kind].unpack_from(data, at)[0])
    if kind == _DOUBLE:
        return repr(_unpack_double(data, at)[0]).replace("e+", "e")
    if kind == _STRING:
        return _quoted(_string(data, at))
    if kind == _OPAQUE:
        return _opaque(data, at)
    raise ConnectorError(f"a JSON value has the unknown type {kind}", hint="report it with the statement")


def _container(kind: int, data: bytes, start: int) -> str:
    is_object, is_large = kind in (_SMALL_OBJECT, _LARGE_OBJECT), kind in (_LARGE_OBJECT, _LARGE_ARRAY)
    size = 4 if is_large else 2

    def number(at: int, length: int = size) -> int:
        return int.from_bytes(data[at : at + length], "little")

    count = number(start)
    at = start + 2 * size
    names = []
    if is_object:
        for index in range(count):
            entry = at + index * (size + 2)
            key = start + number(entry)
            names.append(_quoted(data[key : key + number(entry + size, 2)]))
        at += count * (size + 2)
    values = []
    for index in range(count):
        entry = at + index * (size + 1)
        inlined = data[entry] in (_INLINED_LARGE if is_large else _INLINED_SMALL)
        values.append(_value(data[entry], data, entry + 1 if inlined else start + number(entry + 1)))
    if is_object:
        return "{" + ", ".join(f"{name}: {value}" for name, value in zip(names, values, strict=True)) + "}"
    return "[" + ", ".join(values) + "]"


def _variable_length(data: bytes, at: int) -> tuple[int, int]:
    length = shift = 0
    while True:
        byte = data[at]
        at += 1
        length |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return length, at


def _string(data: bytes, at: int) -> bytes:
    length, at = _variable_length(data, at)
    return data[at : at + length]


def _quoted(text: bytes) -> str:
    return msgspec.json.encode(text.decode()).decode()


def _opaque(data: bytes, at: int) -> str:
    """Return a value of a type that JSON does not have, as the server writes it."""
    kind, content = data[at], _string(data, at + 1)
    if kind == _NEWDECIMAL:
        return decimal_value(content[0], content[1])(content, 2)[0].decode()
    if kind in (_DATE, _TIME) or kind in _DATETIMES:
        return f'"{_packed_time(kind, int.from_bytes(content[:8], "little", signed=True))}"'
    return f'"base64:type{kind}:{base64.b64encode(content).decode()}"'


def _packed_time(kind: int, packed: int) -> str:
    sign, packed = ("-", -packed) if packed < 0 else ("", packed)
    micros, whole = packed & 0xFFFFFF, packed >> 24
    clock = whole & 0x1FFFF
    hour, minute, second = (whole >> 12 & 1023 if kind == _TIME else clock >> 12), clock >> 6 & 63, clock & 63
    if kind == _TIME:
        return f"{sign}{hour:02}:{minute:02}:{second:02}.{micros:06}"
    day = whole >> 17
    months = day >> 5
    date = f"{months // 13:04}-{months % 13:02}-{day & 31:02}"
    return date if kind == _DATE else f"{date} {hour:02}:{minute:02}:{second:02}.{micros:06}"
