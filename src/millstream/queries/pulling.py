"""Queries over the stored tables of an app: by key, by range of keys, by window, or over all rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from millstream.queries.answers import Result
from millstream.queries.limits import Budget
from millstream.sql.lookups import Lookup
from millstream.sql.published import PublishedRelation, Step
from millstream.sql.showing import ShownRows
from millstream.tables.rows import Row, TableReader
from millstream.tables.windows import WindowTableReader

_CHUNK = 5_000


def pulled(lookup: Lookup, published: PublishedRelation, reader: TableReader, budget: Budget) -> Result:
    """Return the rows of a query over a stored table."""
    keys: list[Any] = []
    values: list[Any] = []
    times: list[int] = []
    wanted = None
    if not lookup.shown.descending and lookup.shown.limit is not None:
        wanted = lookup.shown.skip + lookup.shown.limit
    for chunk in _chunks(_rows(lookup, reader, budget.limits.read)):
        budget.add_read(len(chunk))
        for step in published.steps:
            chunk = _applied(step, chunk)
        if lookup.where is not None:
            chunk = _filtered(lookup.where, chunk)
        for row in chunk:
            keys.append(row.key)
            values.append(row.value)
            times.append(row.timestamp)
        if wanted is not None and len(keys) >= wanted:
            break
    rows = lookup.shown.cut(ShownRows(keys, values, times))
    budget.add_rows(rows)
    return Result(lookup.shown.columns, rows)


def _rows(lookup: Lookup, reader: TableReader, most: int) -> Iterator[Row]:
    if isinstance(reader, WindowTableReader):
        if lookup.keys is None:
            yield from reader.windows_of_all(lookup.first, lookup.last, start=lookup.start, stop=lookup.stop)
        for key in lookup.keys or ():
            yield from reader.windows(key, start=lookup.start, stop=lookup.stop)
    elif lookup.keys is not None:
        yield from filter(None, map(reader.row, lookup.keys))
    elif lookup.is_scan:
        yield from reader.scan(limit=most + 1)
    else:
        yield from reader.range(lookup.first, lookup.last)


def _chunks(rows: Iterable[Row]) -> Iterator[list[Row]]:
    iterator = iter(rows)
    while chunk := list(islice(iterator, _CHUNK)):
        yield chunk


def _columns(rows: list[Row]) -> tuple[list[Any], list[Any], list[int]]:
    return [row.key for row in rows], [row.value for row in rows], [row.timestamp for row in rows]


def _filtered(where: Any, rows: list[Row]) -> list[Row]:
    matches = where(*_columns(rows), _ignore)
    return [row for row, is_match in zip(rows, matches, strict=True) if is_match]


def _applied(step: Step, rows: list[Row]) -> list[Row]:
    """Apply a step that is not stored to stored rows."""
    compiled = step.selection.compile()
    if step.clause == "where":
        return _filtered(compiled.where, rows)
    assert compiled.value is not None
    values = compiled.value(*_columns(rows), _ignore)
    return [Row(row.key, value, row.timestamp) for row, value in zip(rows, values, strict=True)]


def _ignore(_part: str, _error: Exception, _row: int) -> None:
    """Ignore an error in an expression: its value is null, as in the table itself."""
