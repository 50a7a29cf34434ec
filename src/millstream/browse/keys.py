"""Find rows by keys that people type."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from millstream.queries.rows import Row, TableReader


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
    """Return the row of a typed key, or None."""
    return next((row for read in keys_of(table, key) if (row := table.row(read)) is not None), None)


def keys_of(table: TableReader, key: str) -> Iterator[Any]:
    """Yield what a typed key can mean in a table."""
    return (read for read in readings_of(key) if _can_be_in(table, read))


def _can_be_in(table: TableReader, key: Any) -> bool:
    try:
        table.partitions_of(key)
    except Exception:  # a serde may refuse a key of another type with any exception
        return False
    return True
