"""How a record is printed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal

from millstream.foundation.text import json_line, parsed, readable, text_of
from millstream.foundation.times import iso
from millstream.records import Record

Format = Literal["text", "json", "raw"]
Print = Callable[[Record], bytes]
STACK_TRACE = "__streams.errors.stacktrace"
"""The header of a dead letter that tells where it failed."""
_INDENT = "    "


def printer(format: Format, *, verbose: int, to_terminal: bool) -> Print:
    """Return the function that turns a record into the bytes of a line; in text, ``verbose`` is 0, 1 or 2."""
    if format == "json":
        return _json
    if format == "raw":
        return _escaped if to_terminal else _raw
    return partial(_verbose, whole=verbose > 1) if verbose else _text


def _text(record: Record) -> bytes:
    return f"{text_of(record.key)}\t{text_of(record.value)}\n".encode()


def _verbose(record: Record, *, whole: bool) -> bytes:
    headers = "".join(f"{_INDENT}{line}\n" for header in record.headers for line in _header_lines(*header, whole))
    place = f"{record.topic}[{record.partition}]@{record.offset}"
    return f"{place}\t{iso(record.timestamp)}\t{text_of(record.key)}\t{text_of(record.value)}\n{headers}".encode()


def _header_lines(name: str, value: bytes | None, whole: bool) -> list[str]:
    """Return a header as a line; a stack trace as its last line, or ``whole`` as the lines that it has."""
    shown = text_of(name.encode())
    stack = (value or b"").splitlines() if name == STACK_TRACE else []
    if len(stack) < 2:
        return [f"{shown}={text_of(value)}"]
    if whole:
        return [f"{shown}=", *(f"{_INDENT}{text_of(line)}" for line in stack)]
    return [f"{shown}=… {text_of(stack[-1])} ({len(stack)} lines, -vv shows them)"]


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
        "key": readable(record.key),
        "value": parsed(record.value),
        "headers": [[name, readable(value)] for name, value in record.headers],
    }
    return f"{json_line(shown)}\n".encode()
