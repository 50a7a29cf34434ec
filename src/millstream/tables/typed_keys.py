"""Find rows by keys that people type: the command line, the API and the alerts all look them up here."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from millstream.errors import DefinitionError
from millstream.tables.rows import Row, TableReader
from millstream.tables.versions import Version, VersionedTableReader
from millstream.tables.windows import WindowTableReader
from millstream.windows import FOREVER

R = TypeVar("R", bound=Row)


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


def find_rows(table: TableReader, key: str, *, since: int = 0, until: int = FOREVER) -> list[Row]:
    """Return the row of a typed key, or its windows that begin at ``since`` … ``until`` in the order of time."""

    def rows_of(read: Any) -> list[Row]:
        if isinstance(table, WindowTableReader):
            return table.windows(read, start=since, stop=until)
        row = table.row(read)
        return [] if row is None else [row]

    return _first(table, key, rows_of)


def find_rows_as_of(table: TableReader, key: str, time: int) -> list[Row]:
    """Return the row of a typed key that was valid at a time, if there was one."""
    history = _with_history(table)
    return _first(table, key, lambda read: [row] if (row := history.row_as_of(read, time)) is not None else [])


def find_versions(table: TableReader, key: str) -> list[Version]:
    """Return all versions of the row of a typed key that are still known, the newest first."""
    return _first(table, key, _with_history(table).versions)


def _first(table: TableReader, key: str, rows_of: Callable[[Any], list[R]]) -> list[R]:
    """Return the rows of the first meaning of a key that has any."""
    return next((rows for read in keys_of(table, key) if (rows := rows_of(read))), [])


def _with_history(table: TableReader) -> VersionedTableReader:
    if not isinstance(table, VersionedTableReader):
        raise DefinitionError(f"table {table.name!r} has no history", hint='keep one with history="1 d"')
    return table


def keys_of(table: TableReader, key: str) -> Iterator[Any]:
    """Yield what a typed key can mean in a table."""
    return (read for read in readings_of(key) if _can_be_in(table, read))


def _can_be_in(table: TableReader, key: Any) -> bool:
    try:
        table.partitions_of(key)
    except Exception:  # a serde may refuse a key of another type with any exception
        return False
    return True
