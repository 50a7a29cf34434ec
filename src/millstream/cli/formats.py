"""Converts records to lines of output."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal

from millstream.foundation.text import bytes_to_text, decode_text, json_line, parse_json
from millstream.foundation.times import format_timestamp
from millstream.records import Record

Format = Literal["text", "json", "raw"]
Print = Callable[[Record], bytes]
STACK_TRACE = "__streams.errors.stacktrace"
"""The header of a dead letter with the stack trace of its error."""
_INDENT = "    "


def printer(format: Format, *, verbose: int, to_terminal: bool) -> Print:
    """Return the function that converts a record to a line; for text, ``verbose`` is 0, 1 or 2."""
    if format == "json":
        return _json
    if format == "raw":
        return _escaped if to_terminal else _raw
    return partial(_verbose, full_traces=verbose > 1) if verbose else _text


def _text(record: Record) -> bytes:
    return f"{bytes_to_text(record.key)}\t{bytes_to_text(record.value)}\n".encode()


def _verbose(record: Record, *, full_traces: bool) -> bytes:
    headers = "".join(f"{_INDENT}{line}\n" for header in record.headers for line in _header_lines(*header, full_traces))
    position = f"{record.topic}[{record.partition}]@{record.offset}"
    key, value = bytes_to_text(record.key), bytes_to_text(record.value)
    return f"{position}\t{format_timestamp(record.timestamp)}\t{key}\t{value}\n{headers}".encode()


def _header_lines(name: str, value: bytes | None, full_traces: bool) -> list[str]:
    """Return a header as one line; a stack trace as its last line, or with ``full_traces`` as all its lines."""
    label = bytes_to_text(name.encode())
    trace = (value or b"").splitlines() if name == STACK_TRACE else []
    if len(trace) < 2:
        return [f"{label}={bytes_to_text(value)}"]
    if full_traces:
        return [f"{label}=", *(f"{_INDENT}{bytes_to_text(line)}" for line in trace)]
    return [f"{label}=… {bytes_to_text(trace[-1])} ({len(trace)} lines, -vv shows them)"]


def _raw(record: Record) -> bytes:
    return (record.value or b"") + b"\n"


def _escaped(record: Record) -> bytes:
    return f"{bytes_to_text(record.value)}\n".encode()


def _json(record: Record) -> bytes:
    fields = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": decode_text(record.key),
        "value": parse_json(record.value),
        "headers": [[name, decode_text(value)] for name, value in record.headers],
    }
    return f"{json_line(fields)}\n".encode()
