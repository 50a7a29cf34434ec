"""Tables of apps: rows by key, by range and by time, as of the last completed batch."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta
from starlette.responses import Response

from millstream.errors import DefinitionError, QueryLimitError, UnknownTableError
from millstream.foundation.text import format_value
from millstream.records import Windowed
from millstream.serve.api.params import Limit, Millis, Name, ShortText
from millstream.serve.operations import Operation
from millstream.serve.site import Site
from millstream.tables.rows import Row, TableReader, Version
from millstream.tables.typed_keys import find_rows, find_rows_as_of, find_versions
from millstream.tables.versions import VersionedTableReader
from millstream.tables.windows import WindowTableReader
from millstream.windows import FOREVER

_MAX_EXPORTED = 100_000
_EXPORT_BYTES = 64 << 20
_PAGE_BYTES = 8 << 20
_MAX_OF_KEY = 500
_MAX_COUNTED_WINDOWS = 10_000


class TableSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A table in a list; ``rows`` counts windows in a windowed table, and is null if counting would take too long."""

    app: str
    table: str
    rows: int | None
    is_windowed: bool
    has_history: bool


class RowView(msgspec.Struct, frozen=True, kw_only=True):
    """A row; ``start`` and ``end`` are those of its window, if it has one.

    A version of a row is valid from ``timestamp`` to ``until``, which is null for the current version; its value is
    null if the row was deleted.
    """

    key: Any
    value: Any
    timestamp: int
    start: int | None = None
    end: int | None = None
    until: int | None = None


class TablePage(msgspec.Struct, frozen=True, kw_only=True):
    """Rows of a table; ``has_more`` if these are not all.

    ``copied_at`` is null if the state itself was read. If the app runs on other hosts, a copy was read, which contains
    everything that was committed before that time.
    """

    app: str
    table: str
    is_windowed: bool
    has_history: bool
    rows: list[RowView]
    has_more: bool
    copied_at: int | None = None


class ScanParams(msgspec.Struct, frozen=True, kw_only=True):
    table: Name
    app: Annotated[Name | None, Meta(description="Optional if only one app has a table of that name.")] = None
    prefix: Annotated[ShortText | None, Meta(description="Only text keys with this prefix.")] = None
    first: Annotated[ShortText | None, Meta(description="First key, inclusive.")] = None
    last: Annotated[ShortText | None, Meta(description="Last key, exclusive.")] = None
    limit: Limit = 50


class KeyParams(msgspec.Struct, frozen=True, kw_only=True):
    table: Name
    key: Annotated[str, Meta(min_length=1, max_length=4000, description="The key as text or as JSON.")]
    app: Name | None = None
    since: Annotated[Millis | None, Meta(description="Windows that start at this time or later.")] = None
    until: Annotated[Millis | None, Meta(description="Windows that start at this time or earlier.")] = None
    as_of: Annotated[Millis | None, Meta(description="Tables with history: the row that was valid then.")] = None
    versions: Annotated[bool, Meta(description="Tables with history: all versions, newest first.")] = False


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
        for app in site.directory.apps()
        for name, reader in sorted(site.directory.tables(app).items())
    ]


def scan_table(site: Site, params: ScanParams) -> TablePage:
    """Return rows in key order within each partition."""
    app, reader = find_table(site, params.table, params.app)
    bounds: dict[str, Any] = {"prefix": params.prefix, "limit": params.limit + 1}
    bounds |= {name: key for name, key in (("start", params.first), ("stop", params.last)) if key is not None}
    rows: list[Row] = []
    size = 0
    for row in islice(reader.scan(**bounds), params.limit + 1):
        if size > _PAGE_BYTES:
            return msgspec.structs.replace(_page(app, reader, rows, params.limit), has_more=True)
        rows.append(row)
        size += _size(row_view(row))
    return _page(app, reader, rows, params.limit)


def get_row(site: Site, params: KeyParams) -> TablePage:
    """Return the row of a key, its windows in time order, or its versions; if there are too many, the newest."""
    app, reader = find_table(site, params.table, params.app)
    rows = _rows_of(reader, params)
    if not rows:
        raise UnknownTableError(
            f"table {params.table!r} has no row with key {params.key!r:.100}", hint="scan the table to see its keys"
        )
    newest = rows[:_MAX_OF_KEY] if params.versions else rows[-_MAX_OF_KEY:]
    return msgspec.structs.replace(_page(app, reader, newest, _MAX_OF_KEY), has_more=len(rows) > len(newest))


def export_table(site: Site, params: ExportParams) -> tuple[ExportParams, list[RowView]]:
    """Return many rows in one response, for a file; a file that would lack rows is refused."""
    _, reader = find_table(site, params.table, params.app)
    rows: list[RowView] = []
    size = 0
    for row in reader.scan(prefix=params.prefix):
        rows.append(row_view(row))
        size += _size(rows[-1])
        if len(rows) > _MAX_EXPORTED or size > _EXPORT_BYTES:
            limit = f"{_MAX_EXPORTED:,} rows or {_EXPORT_BYTES:,} bytes"
            hint = f"export a part of it with prefix=, or use: millstream tables scan {reader.name} --json"
            raise QueryLimitError(f"table {reader.name!r} has more than {limit}", hint=hint, limit=_MAX_EXPORTED)
    return params, rows


def find_table(site: Site, name: str, app: str | None) -> tuple[str, TableReader]:
    """Return a table and its app; the app is optional if only one has such a table."""
    directory = site.directory
    if app is not None:
        return app, directory.tables(app)[name]
    matches = [(owner, tables[name]) for owner in directory.apps() if name in (tables := directory.tables(owner))]
    if not matches:
        raise UnknownTableError(f"no app has a table {name!r}", hint="see /api/tables")
    if len(matches) > 1:
        owners = ", ".join(owner for owner, _ in matches)
        raise DefinitionError(f"several apps have a table {name!r}", hint=f"choose one with app=: {owners}")
    return matches[0]


def row_view(row: Row) -> RowView:
    """Return a row for display."""
    if not isinstance(row.key, Windowed):
        until = row.until if isinstance(row, Version) else None
        return RowView(key=row.key, value=row.value, timestamp=row.timestamp, until=until)
    window = row.key
    return RowView(key=window.key, value=row.value, timestamp=row.timestamp, start=window.start, end=window.end)


def _size(row: RowView) -> int:
    return len(msgspec.json.encode(row, enc_hook=repr))


def _rows_of(reader: TableReader, params: KeyParams) -> Sequence[Row]:
    if params.versions:
        return find_versions(reader, params.key)
    if params.as_of is not None:
        return find_rows_as_of(reader, params.key, params.as_of)
    until = FOREVER if params.until is None else params.until
    return find_rows(reader, params.key, since=params.since or 0, until=until)


def _page(app: str, reader: TableReader, rows: Sequence[Row], limit: int) -> TablePage:
    return TablePage(
        app=app,
        table=reader.name,
        is_windowed=isinstance(reader, WindowTableReader),
        has_history=isinstance(reader, VersionedTableReader),
        rows=[row_view(row) for row in rows[:limit]],
        has_more=len(rows) > limit,
        copied_at=reader.copied_at,
    )


def _count(reader: TableReader) -> int | None:
    if isinstance(reader, WindowTableReader):
        count = sum(1 for _ in reader.scan(limit=_MAX_COUNTED_WINDOWS))
        return None if count >= _MAX_COUNTED_WINDOWS else count
    return len(reader)


def _file(exported: tuple[ExportParams, list[RowView]]) -> Response:
    params, rows = exported
    name = f"{params.table}.{params.format}"
    headers = {"content-disposition": f'attachment; filename="{name}"'}  # a name cannot contain quotes
    if params.format == "json":
        return Response(msgspec.json.encode(rows, enc_hook=repr), media_type="application/json", headers=headers)
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(["key", "start", "end", "value", "timestamp"])
    writer.writerows(_cells(rows))
    return Response(text.getvalue(), media_type="text/csv", headers=headers)


def _cells(rows: list[RowView]) -> Iterator[list[object]]:
    for row in rows:
        yield [
            _escape_formula(format_value(row.key)),
            row.start,
            row.end,
            _escape_formula(format_value(row.value)),
            row.timestamp,
        ]


def _escape_formula(text: str) -> str:
    """Prevent a spreadsheet from evaluating text as a formula."""
    is_number = text.lstrip("-").replace(".", "", 1).isdigit()
    return f"'{text}" if text[:1] in ("=", "+", "-", "@") and not is_number else text


OPERATIONS = (
    Operation(method="GET", path="/api/tables", summary="List tables", handler=list_tables, result=list[TableSummary]),
    Operation(
        method="GET",
        path="/api/tables/{table}",
        summary="Read rows by prefix or range",
        handler=scan_table,
        params=ScanParams,
        result=TablePage,
    ),
    Operation(
        method="GET",
        path="/api/export/{table}",
        summary="Download a table as a file",
        handler=export_table,
        params=ExportParams,
        result=list[RowView],
        media_types=("text/csv", "application/json"),
        respond=_file,
    ),
    Operation(
        method="GET",
        path="/api/tables/{table}/{key:key}",
        summary="Read the row of a key, its windows, or its versions",
        handler=get_row,
        params=KeyParams,
        result=TablePage,
    ),
)
