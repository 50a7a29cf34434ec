"""Functions of bytes."""

from __future__ import annotations

import base64
import struct
from typing import Any

from millstream.sql.functions.registry import function


def _hex_bytes(text: str) -> bytes:
    digits = text.removeprefix("0x").removeprefix("X'").removesuffix("'")
    return bytes.fromhex(digits if len(digits) % 2 == 0 else "0" + digits)


_DECODERS = {
    "hex": _hex_bytes,
    "utf8": str.encode,
    "ascii": lambda text: text.encode("ascii", "replace"),
    "base64": lambda text: base64.b64decode(text, validate=True),
}
_ENCODERS = {
    "hex": bytes.hex,
    "utf8": bytes.decode,
    "ascii": lambda data: data.decode("ascii", "replace"),
    "base64": lambda data: base64.b64encode(data).decode(),
}


def _named(functions: dict[str, Any], encoding: str) -> Any:
    if encoding.lower() not in functions:
        raise ValueError(f"encoding {encoding!r} is unknown: use {', '.join(functions)}")
    return functions[encoding.lower()]


@function("TO_BYTES", "STRING, STRING -> BYTES")
def _to_bytes(text: str, encoding: str) -> Any:
    return _named(_DECODERS, encoding)(text)


@function("FROM_BYTES", "BYTES, STRING -> STRING")
def _from_bytes(data: bytes, encoding: str) -> Any:
    text = _named(_ENCODERS, encoding)(data)
    return text.upper() if encoding.lower() == "hex" else text


@function("ENCODE", "STRING, STRING, STRING -> STRING")
def _encode(text: str, source: str, target: str) -> Any:
    return _named(_ENCODERS, target)(_named(_DECODERS, source)(text))


def _ordered(data: bytes, order: str, size: int) -> bytes:
    if len(data) != size:
        raise ValueError(f"{size} bytes are needed, not {len(data)}")
    if order.upper() not in ("BIG_ENDIAN", "LITTLE_ENDIAN"):
        raise ValueError(f"byte order {order!r} is unknown: use BIG_ENDIAN or LITTLE_ENDIAN")
    return data if order.upper() == "BIG_ENDIAN" else data[::-1]


@function("INT_FROM_BYTES", "BYTES -> INTEGER", "BYTES, STRING -> INTEGER")
def _int_from_bytes(data: bytes, order: str = "BIG_ENDIAN") -> int:
    return int.from_bytes(_ordered(data, order, 4), "big", signed=True)


@function("BIGINT_FROM_BYTES", "BYTES -> BIGINT", "BYTES, STRING -> BIGINT")
def _bigint_from_bytes(data: bytes, order: str = "BIG_ENDIAN") -> int:
    return int.from_bytes(_ordered(data, order, 8), "big", signed=True)


@function("DOUBLE_FROM_BYTES", "BYTES -> DOUBLE", "BYTES, STRING -> DOUBLE")
def _double_from_bytes(data: bytes, order: str = "BIG_ENDIAN") -> float:
    return float(struct.unpack(">d", _ordered(data, order, 8))[0])
