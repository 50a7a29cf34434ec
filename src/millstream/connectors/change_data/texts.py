"""Single values of Postgres, given as text, as JSON: for types that cannot be sliced out of what the server sent."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from typing import Any, Final, TypeAlias

import msgspec

Render: TypeAlias = Callable[[bytes], bytes]
"""Turns the text of a value into JSON."""

encode_json = msgspec.json.encode
_NUMBER = re.compile(rb"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?")
_ARRAY_TOKEN = re.compile(rb'[{}]|"(?:[^"\\]|\\.)*"|[^{},"]+', re.DOTALL)
_ESCAPE = re.compile(rb"\\(.)", re.DOTALL)
_BOUNDS = re.compile(rb"^(\[[-\d:]+\])+=")


def render_text(text: bytes) -> bytes:
    """Return a JSON string.

    >>> render_text(b'5" nail')
    b'"5\\\\" nail"'
    """
    return encode_json(str(text, "utf-8"))


def render_number(text: bytes) -> bytes:
    """Return a JSON number with all digits; NaN and infinity, which JSON does not have, become strings.

    >>> render_number(b"1.10"), render_number(b"NaN")
    (b'1.10', b'"NaN"')
    """
    return text if _NUMBER.fullmatch(text) else render_text(text)


def render_bool(text: bytes) -> bytes:
    """Return a JSON boolean.

    >>> render_bool(b"t")
    b'true'
    """
    return b"true" if text == b"t" else b"false"


def render_json(text: bytes) -> bytes:
    """Return a value of the types json and jsonb as it is."""
    return text


def render_bytes(text: bytes) -> bytes:
    """Return base64, as msgspec reads and writes bytes in JSON.

    >>> render_bytes(b"\\\\x6869")
    b'"aGk="'
    """
    return b'"' + base64.b64encode(bytes.fromhex(text[2:].decode())) + b'"'


def render_timestamp(text: bytes) -> bytes:
    """Return a time in ISO 8601; infinity and years before Christ stay as Postgres writes them.

    >>> render_timestamp(b"2024-02-29 12:00:00.5+00"), render_timestamp(b"infinity")
    (b'"2024-02-29T12:00:00.5Z"', b'"infinity"')
    """
    if b" " not in text or text.endswith(b"BC"):
        return b'"' + text + b'"'
    text = text.replace(b" ", b"T", 1)
    return b'"' + (text[:-3] + b"Z" if text.endswith(b"+00") else text) + b'"'


def array_of(element: Render) -> Render:
    """Return a function for arrays, which may be nested, of elements of some type."""

    def render(text: bytes) -> bytes:
        out: list[bytes] = []
        for token in _ARRAY_TOKEN.findall(_BOUNDS.sub(b"", text)):
            if token == b"}":
                out.append(b"]")
                continue
            if out and out[-1] != b"[":
                out.append(b",")
            out.append(b"[" if token == b"{" else _element(token, element))
        return b"".join(out)

    return render


def _element(token: bytes, element: Render) -> bytes:
    if token == b"NULL":
        return b"null"
    if token.startswith(b'"'):
        token = _ESCAPE.sub(rb"\1", token[1:-1])
    return element(token)


def render_raw_bytes(data: bytes) -> bytes:
    """Return bytes that are not texts as base64.

    >>> render_raw_bytes(b"hi")
    b'"aGk="'
    """
    return b'"' + base64.b64encode(data) + b'"'


def render_bits(text: bytes) -> bytes:
    """Return binary digits as a number.

    >>> render_bits(b"0101")
    b'5'
    """
    return b"%d" % int(text, 2)


INTEGERS: Final = frozenset({20, 21, 23, 26, 28})
"""int8, int2, int4, oid, xid."""
BOOL: Final = 16
RAW_BYTES, BITS, UTC_TIMESTAMP, DURATION = 1_000_017, 1_001_560, 1_001_184, 1_001_083
"""Types that Postgres does not have: bytes as they are, bits that are a number, a timestamp whose decimals have a fixed
length, and a time that may be negative or longer than a day."""
TIMESTAMPS: Final = frozenset({1114, 1184})
FIXED_LENGTH: Final = INTEGERS | TIMESTAMPS | {BOOL, 700, 701, 2950, 1082, 1083, 1266, 1186}
"""Types whose values are never stored outside their row."""

ROW_TYPES: Final[dict[int, Render]] = {
    **dict.fromkeys(INTEGERS | {700, 701, 1700}, render_number),
    BOOL: render_bool,
    17: render_bytes,
    114: render_json,
    3802: render_json,
    **dict.fromkeys(TIMESTAMPS | {UTC_TIMESTAMP}, render_timestamp),
    RAW_BYTES: render_raw_bytes,
    BITS: render_bits,
}
"""All other types are strings."""

ARRAY_ELEMENTS: Final[dict[int, int]] = {
    1000: 16,
    1001: 17,
    1016: 20,
    1005: 21,
    1007: 23,
    1028: 26,
    199: 114,
    3807: 3802,
    1021: 700,
    1022: 701,
    1231: 1700,
    1115: 1114,
    1185: 1184,
    1182: 1082,
    1183: 1083,
    2951: 2950,
    1009: 25,
    1015: 1043,
    1014: 1042,
}


def renderer(type_id: int, table: dict[int, Any] = ROW_TYPES) -> Render:
    """Return the function for a type, given by its object id."""
    element = ARRAY_ELEMENTS.get(type_id)
    if element is not None:
        return array_of(table.get(element, render_text))
    render: Render = table.get(type_id, render_text)
    return render
