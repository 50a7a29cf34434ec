"""Tables of apps: rows by key, by range and by time, as of the last batch that is done."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta
from starlette.responses import Response

from millstream.errors import DefinitionError, UnknownTableError
from millstream.foundation.text import format_value
from millstream.records import Windowed
from millstream.serve.api.params import Limit, Millis, Name, ShortText
from millstream.serve.operations import Operation
from millstream.serve.site import Site
from millstream.tables.rows import Row, TableReader
from millstream.tables.typed_keys import find_rows, find_rows_as_of, find_versions
from millstream.tables.versions import Version, VersionedTableReader
from millstream.tables.windows import WindowTableReader
from millstream.windows import FOREVER

_MOST_EXPORTED = 100_000
_MOST_OF_KEY = 500
_MOST_COUNTED = 1_000_000


class TableSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A table in a list; ``rows`` counts windows where there are windows, and is null if that would take long."""

    app: str
    table: str
    rows: int | None
    is_windowed: bool
    has_history: bool


class ShownRow(msgspec.Struct, frozen=True, kw_only=True):
    """A row; ``start`` and ``end`` are those of its window, if it has one.

    A version of a row is valid from ``timestamp`` to ``until``, which is null while no other has followed; its value is
    null where the row was deleted.
    """

    key: Any
    value: Any
    timestamp: int
    start: int | None = None
    end: int | None = None
    until: int | None = None


class Rows(msgspec.Struct, frozen=True, kw_only=True):
    """Rows of a table; with ``has_more`` there are others than those."""

    app: str
    table: str
    is_windowed: bool
    has_history: bool
    rows: list[ShownRow]
    has_more: bool


class ScanParams(msgspec.Struct, frozen=True, kw_only=True):
    table: Name
    app: Annotated[Name | None, Meta(description="Not needed if only one app has a table of that name.")] = None
    prefix: Annotated[ShortText | None, Meta(description="Only text keys that begin with this.")] = None
    first: Annotated[ShortText | None, Meta(description="Only keys from this one on.")] = None
    last: Annotated[ShortText | None, Meta(description="Only keys before this one.")] = None
    limit: Limit = 50


class KeyParams(msgspec.Struct, frozen=True, kw_only=True):
    table: Name
    key: Annotated[str, Meta(min_length=1, max_length=4000, description="As text, or as what it means in JSON.")]
    app: Name | None = None
    since: Annotated[Millis | None, Meta(description="Of windows: only those that start then or later.")] = None
    until: Annotated[Millis | None, Meta(description="Of windows: only those that start then or before.")] = None
    as_of: Annotated[Millis | None, Meta(description="Of tables with history: the row that was valid then.")] = None
    versions: Annotated[bool, Meta(description="Of tables with history: all versions, the newest first.")] = False


class ExportParams(msgspec.Struct, frozen=True, kw_only=True):
    table: Name
    app: Name | None = None
    prefix: ShortText | None = None
    format: Literal["csv", "json"] = "csv"


def list_tables(site: Site, _: object = None) -> list[TableSummary]:
    """Return the tables of all apps."""
    return [
        TableSummary(
            app=app,
            table=name,
            rows=_count(reader),
            is_windowed=isinstance(reader, WindowTableReader),
            has_history=isinstance(reader, VersionedTableReader),
        )
        for app in site.place.apps()
        for name, reader in sorted(site.place.tables(app).items())
    ]


def scan_table(site: Site, params: ScanParams) -> Rows:
    """Return rows in the order of their keys within each partition."""
    app, reader = find_table(site, params.table, params.app)
    bounds: dict[str, Any] = {"prefix": params.prefix, "limit": params.limit + 1}
    bounds |= {name: key for name, key in (("start", params.first), ("stop", params.last)) if key is not None}
    rows = list(islice(reader.scan(**bounds), params.limit + 1))
    return _answer(app, reader, rows, params.limit)


def get_row(site: Site, params: KeyParams) -> Rows:
    """Return the row of a key, or its windows in the order of time, or its versions; of many the newest."""
    app, reader = find_table(site, params.table, params.app)
    rows = _rows_of(reader, params)
    if not rows:
        raise UnknownTableError(
            f"table {params.table!r} has no row of key {params.key!r:.100}", hint="scan the table to see its keys"
        )
    newest = rows[:_MOST_OF_KEY] if params.versions else rows[-_MOST_OF_KEY:]
    return msgspec.structs.replace(_answer(app, reader, newest, _MOST_OF_KEY), has_more=len(rows) > len(newest))


def export_table(site: Site, params: ExportParams) -> tuple[ExportParams, list[ShownRow]]:
    """Return many rows at once, for files."""
    _, reader = find_table(site, params.table, params.app)
    return params, [shown_row(row) for row in islice(reader.scan(prefix=params.prefix), _MOST_EXPORTED)]


def find_table(site: Site, name: str, app: str | None) -> tuple[str, TableReader]:
    """Return a table and the app it belongs to; the app may be left out if there is only one with such a table."""
    if app is not None:
        return app, site.place.tables(app)[name]
    found = [(one, tables[name]) for one in site.place.apps() if name in (tables := site.place.tables(one))]
    if not found:
        raise UnknownTableError(f"no app has a table {name!r}", hint="see /api/tables")
    if len(found) > 1:
        raise DefinitionError(
            f"several apps have a table {name!r}", hint=f"say which with app=: {', '.join(one for one, _ in found)}"
        )
    return found[0]


def shown_row(row: Row) -> ShownRow:
    """Return a row as it is told."""
    if not isinstance(row.key, Windowed):
        until = row.until if isinstance(row, Version) else None
        return ShownRow(key=row.key, value=row.value, timestamp=row.timestamp, until=until)
    window = row.key
    return ShownRow(key=window.key, value=row.value, timestamp=row.timestamp, start=window.start, end=window.end)


def _rows_of(reader: TableReader, params: KeyParams) -> Sequence[Row]:
    if params.versions:
        return find_versions(reader, params.key)
    if params.as_of is not None:
        return find_rows_as_of(reader, params.key, params.as_of)
    until = FOREVER if params.until is None else params.until
    return find_rows(reader, params.key, since=params.since or 0, until=until)


def _answer(app: str, reader: TableReader, rows: Sequence[Row], limit: int) -> Rows:
    return Rows(
        app=app,
        table=reader.name,
        is_windowed=isinstance(reader, WindowTableReader),
        has_history=isinstance(reader, VersionedTableReader),
        rows=[shown_row(row) for row in rows[:limit]],
        has_more=len(rows) > limit,
    )


def _count(reader: TableReader) -> int | None:
    if isinstance(reader, WindowTableReader):
        count = sum(1 for _ in reader.scan(limit=_MOST_COUNTED // 100))
        return None if count >= _MOST_COUNTED // 100 else count
    return len(reader)


def _file(exported: tuple[ExportParams, list[ShownRow]]) -> Response:
    params, rows = exported
    name = f"{params.table}.{params.format}"
    headers = {"content-disposition": f'attachment; filename="{name}"'}  # names have no quotes in them
    if params.format == "json":
        return Response(msgspec.json.encode(rows, enc_hook=repr), media_type="application/json", headers=headers)
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(["key", "start", "end", "value", "timestamp"])
    writer.writerows(_cells(rows))
    return Response(text.getvalue(), media_type="text/csv", headers=headers)


def _cells(rows: list[ShownRow]) -> Iterator[list[object]]:
    for row in rows:
        yield [_harmless(format_value(row.key)), row.start, row.end, _harmless(format_value(row.value)), row.timestamp]


def _harmless(text: str) -> str:
    """Keep a spreadsheet from taking a text for a formula."""
    is_number = text.lstrip("-").replace(".", "", 1).isdigit()
    return f"'{text}" if text[:1] in ("=", "+", "-", "@") and not is_number else text


OPERATIONS = (
    Operation(method="GET", path="/api/tables", summary="List tables", handler=list_tables, answer=list[TableSummary]),
    Operation(
        method="GET",
        path="/api/tables/{table}",
        summary="Read rows by prefix or range",
        handler=scan_table,
        params=ScanParams,
        answer=Rows,
    ),
    Operation(
        method="GET",
        path="/api/export/{table}",
        summary="Download a table as a file",
        handler=export_table,
        params=ExportParams,
        answer=list[ShownRow],
        media_types=("text/csv", "application/json"),
        respond=_file,
    ),
    Operation(
        method="GET",
        path="/api/tables/{table}/{key:key}",
        summary="Read the row of a key, or its windows, or its versions",
        handler=get_row,
        params=KeyParams,
        answer=Rows,
    ),
)
