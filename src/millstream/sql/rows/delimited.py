"""Lines of values separated by a character, quoted as Apache Commons CSV does."""

from __future__ import annotations

import base64
import csv
from collections.abc import Callable, Iterable
from typing import Any

from millstream.sql.coercion import cast
from millstream.sql.rows.plain import from_plain
from millstream.sql.types import STRING, Type
from millstream.sql.values import as_text, to_days, to_millis, to_time_millis

csv.field_size_limit(100_000_000)


def read_line(text: str, delimiter: str) -> list[str | None]:
    """Return the values of the first line of a text."""
    rows = csv.reader(text.split("\n") if '"' not in text else [text], delimiter=delimiter, strict=False)
    line: list[str | None] = list(next(rows, []))
    return line or [None]


def write_line(values: Iterable[str | None], delimiter: str) -> str:
    """Return values as one line; null is empty."""
    return delimiter.join(
        "" if value is None else _quoted(value, delimiter, is_first=not number) for number, value in enumerate(values)
    )


def _quoted(text: str, delimiter: str, *, is_first: bool) -> str:
    return '"' + text.replace('"', '""') + '"' if _needs_quotes(text, delimiter, is_first=is_first) else text


def _needs_quotes(text: str, delimiter: str, *, is_first: bool) -> bool:
    if not text:
        return is_first
    first = text[0]
    if is_first and not (first.isascii() and first.isalnum()):
        return True
    return first <= "#" or text[-1] <= " " or any(character in text for character in ("\n", "\r", '"', delimiter))


_WRITERS: dict[str, Callable[[Any], str]] = {
    "DATE": lambda value: str(to_days(value)),
    "TIME": lambda value: str(to_time_millis(value)),
    "TIMESTAMP": lambda value: str(to_millis(value)),
    "BYTES": lambda value: base64.b64encode(value).decode(),
}


def text_writer(type: Type) -> Callable[[Any], str]:
    """Return what writes values of a type."""
    return _WRITERS.get(type.kind, as_text)


def text_reader(type: Type) -> Callable[[str], Any]:
    """Return what reads values of a type."""
    if type.kind == "STRING":
        return str
    if type.kind in ("DATE", "TIME", "TIMESTAMP", "BYTES", "DECIMAL"):
        return from_plain(type)
    return cast(STRING, type) or str
