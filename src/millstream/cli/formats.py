"""How a record is printed."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any, Literal

import msgspec

from millstream.cli.moments import iso
from millstream.cli.output import json_line, text_of
from millstream.records import Record

Format = Literal["text", "json", "raw"]
Print = Callable[[Record], bytes]


def printer(format: Format, *, verbose: bool, to_terminal: bool) -> Print:
    """Return the function that turns a record into the bytes of a line."""
    if format == "json":
        return _json
    if format == "raw":
        return _escaped if to_terminal else _raw
    return _verbose if verbose else _text


def _text(record: Record) -> bytes:
    return f"{text_of(record.key)}\t{text_of(record.value)}\n".encode()


def _verbose(record: Record) -> bytes:
    headers = "".join(f"\t{text_of(name.encode())}={text_of(value)}" for name, value in record.headers)
    place = f"{record.topic}[{record.partition}]@{record.offset}"
    return f"{place}\t{iso(record.timestamp)}\t{text_of(record.key)}\t{text_of(record.value)}{headers}\n".encode()


def _raw(record: Record) -> bytes:
    return (record.value or b"") + b"\n"


def _escaped(record: Record) -> bytes:
    return f"{text_of(record.value)}\n".encode()


def _json(record: Record) -> bytes:
    shown = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": _readable(record.key),
        "value": _parsed(record.value),
        "headers": [[name, _readable(value)] for name, value in record.headers],
    }
    return f"{json_line(shown)}\n".encode()


def _parsed(data: bytes | None) -> Any:
    """Return JSON as what it means, other text as it is."""
    try:
        return None if data is None else msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _readable(data)


def _readable(data: bytes | None) -> Any:
    try:
        return None if data is None else data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data or b"").decode()}
