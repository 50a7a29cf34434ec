"""The formats of files: where records end, and what their values are."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple, Protocol

from millstream.foundation.json_text import json_bytes

Format = Literal["lines", "jsonl", "csv", "parquet"]
CsvType = Literal["str", "int", "float", "bool"]
_TRUTH = {"true": True, "1": True, "false": False, "0": False}


class FileChunk(NamedTuple):
    """Values of records, and how many bytes they took."""

    values: list[bytes]
    length: int


class TextFormat(Protocol):
    """How text is cut into records."""

    has_header: bool

    def chunk(self, data: bytes, header: Sequence[str]) -> FileChunk:
        """Return the complete records at the start of the data."""

    def header(self, first: bytes) -> tuple[list[str], int]:
        """Return the names of columns at the start of a file, and their length; 0 while they are not complete."""


class Lines:
    """Each line is a value, as it is; empty lines are left out."""

    has_header = False

    def chunk(self, data: bytes, _header: Sequence[str]) -> FileChunk:
        end = data.rfind(b"\n") + 1
        return FileChunk([line for line in (part.rstrip(b"\r") for part in data[:end].split(b"\n")) if line], end)

    def header(self, _first: bytes) -> tuple[list[str], int]:
        return [], 0


class Csv:
    """Each row is a JSON object with the names of the first row; fields may contain line feeds within quotes."""

    has_header = True

    def __init__(self, delimiter: str, types: Mapping[str, CsvType]) -> None:
        self._delimiter = delimiter
        self._types = types

    def chunk(self, data: bytes, header: Sequence[str]) -> FileChunk:
        end = _complete_rows(data)
        return FileChunk([json_bytes(self._named(header, row)) for row in self._rows(data[:end]) if row], end)

    def header(self, first: bytes) -> tuple[list[str], int]:
        end = _complete_rows(first, most=1)
        return next(self._rows(first[:end].removeprefix(b"\xef\xbb\xbf")), []), end

    def _rows(self, data: bytes) -> Iterator[list[str]]:
        text = io.StringIO(data.decode("utf-8", "backslashreplace"), newline="")
        return csv.reader(text, delimiter=self._delimiter)

    def _named(self, header: Sequence[str], row: list[str]) -> dict[str, Any]:
        values = {name: self._typed(name, text) for name, text in zip(header, row, strict=False)}
        if len(row) > len(header):
            values["_rest"] = row[len(header) :]  # nothing is dropped silently
        return values

    def _typed(self, name: str, text: str) -> Any:
        """Return a field in its type; None if it is empty, and the text itself if it does not fit."""
        kind = self._types.get(name, "str")
        if kind == "str":
            return text
        if not text:
            return None
        try:
            return _TRUTH.get(text.lower(), text) if kind == "bool" else (int if kind == "int" else float)(text)
        except ValueError:
            return text


def _complete_rows(data: bytes, most: int | None = None) -> int:
    """Return where the last complete row ends: at a line feed with an even number of quotes before it."""
    end, start, quotes, rows = 0, 0, 0, 0
    while (line_feed := data.find(b"\n", start)) >= 0:
        quotes += data.count(b'"', start, line_feed)
        start = line_feed + 1
        if quotes % 2 == 0:
            end, rows = start, rows + 1
            if rows == most:
                break
    return end
