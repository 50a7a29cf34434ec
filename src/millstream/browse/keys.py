"""Find rows by keys that people type."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from millstream.queries.rows import Row, TableReader
from millstream.queries.windows import WindowTableReader


def readings_of(key: str) -> Iterator[Any]:
    """Yield what a typed key can mean: the text first, then what it says in JSON.

    >>> list(readings_of("17")), list(readings_of("kafka")), list(readings_of("[1]"))
    (['17', 17], ['kafka'], ['[1]', [1], (1,)])
    """
    yield key
    try:
        read = json.loads(key)
    except (ValueError, RecursionError):
        return
    yield read
    if isinstance(read, list):
        yield tuple(read)


def find_row(table: TableReader, key: str) -> Row | None:
    """Return the row of a typed key, of several windows the newest, or None."""
    rows = find_rows(table, key)
    return rows[-1] if rows else None


def find_rows(table: TableReader, key: str) -> list[Row]:
    """Return the row of a typed key, or its windows in the order of time; nothing if there is none."""
    return next((rows for read in keys_of(table, key) if (rows := _rows_of(table, read))), [])


def _rows_of(table: TableReader, key: Any) -> list[Row]:
    if isinstance(table, WindowTableReader):
        return table.windows(key)
    row = table.row(key)
    return [] if row is None else [row]


def keys_of(table: TableReader, key: str) -> Iterator[Any]:
    """Yield what a typed key can mean in a table."""
    return (read for read in readings_of(key) if _can_be_in(table, read))


def _can_be_in(table: TableReader, key: Any) -> bool:
    try:
        table.partitions_of(key)
    except Exception:  # a serde may refuse a key of another type with any exception
        return False
    return True
