"""Find rows by keys that people type on the command line, in the API and in alert rules."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from millstream.errors import DefinitionError
from millstream.tables.rows import Row, TableReader, Version
from millstream.tables.versions import VersionedTableReader
from millstream.tables.windows import WindowTableReader
from millstream.windows import FOREVER

R = TypeVar("R", bound=Row)


def readings_of(key: str) -> Iterator[Any]:
    """Yield what a typed key can mean: the text first, then its value as JSON.

    >>> list(readings_of("17")), list(readings_of("kafka")), list(readings_of("[1]"))
    (['17', 17], ['kafka'], ['[1]', [1], (1,)])
    """
    yield key
    try:
        value = json.loads(key)
    except (ValueError, RecursionError):
        return
    yield value
    if isinstance(value, list):
        yield tuple(value)


def find_row(table: TableReader, key: str) -> Row | None:
    """Return the row of a typed key, the newest of several windows, or None."""
    rows = find_rows(table, key)
    return rows[-1] if rows else None


def find_rows(table: TableReader, key: str, *, since: int = 0, until: int = FOREVER) -> list[Row]:
    """Return the row of a typed key, or its windows that start at ``since`` … ``until`` in order of time."""

    def rows_of(meaning: Any) -> list[Row]:
        if isinstance(table, WindowTableReader):
            return table.windows(meaning, start=since, stop=until)
        row = table.row(meaning)
        return [] if row is None else [row]

    return _first(table, key, rows_of)


def find_rows_as_of(table: TableReader, key: str, time: int) -> list[Row]:
    """Return the row of a typed key that was valid at a time, if any."""
    history = _with_history(table)
    return _first(table, key, lambda meaning: [row] if (row := history.row_as_of(meaning, time)) is not None else [])


def find_versions(table: TableReader, key: str) -> list[Version]:
    """Return all versions of the row of a typed key that are still kept, the newest first."""
    return _first(table, key, _with_history(table).versions)


def _first(table: TableReader, key: str, rows_of: Callable[[Any], list[R]]) -> list[R]:
    """Return the rows of the first meaning of a key that has any."""
    return next((rows for meaning in keys_of(table, key) if (rows := rows_of(meaning))), [])


def _with_history(table: TableReader) -> VersionedTableReader:
    if not isinstance(table, VersionedTableReader):
        raise DefinitionError(f"table {table.name!r} has no history", hint='keep one with history="1 d"')
    return table


def keys_of(table: TableReader, key: str) -> Iterator[Any]:
    """Yield what a typed key can mean in a table."""
    return (meaning for meaning in readings_of(key) if _can_be_in(table, meaning))


def _can_be_in(table: TableReader, key: Any) -> bool:
    try:
        table.partitions_of(key)
    except Exception:  # a serde may refuse a key of another type with any exception
        return False
    return True
