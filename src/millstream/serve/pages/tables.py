"""Tables: the list, and the rows of one table by key, prefix, range and time."""

from __future__ import annotations

import shlex
from typing import Any, NamedTuple

from millstream.errors import MillstreamError
from millstream.foundation.text import json_line
from millstream.serve.api.params import parse_time
from millstream.serve.api.tables import KeyParams, RowView, ScanParams, TablePage, get_row, list_tables, scan_table
from millstream.serve.html import Content, Markup, element, joined
from millstream.serve.pages.parts import (
    badge,
    by,
    card,
    command,
    copy_button,
    empty,
    field,
    link,
    moment,
    number,
    table,
    url,
    value_of,
)
from millstream.serve.site import Site
from millstream.windows import FOREVER

_MANY = 2**53  # sorted above every counted number
_MORE_ROWS = "There are more rows; narrow the prefix or the range."
_MORE_OF_KEY = "There are older ones; choose another time."


class KeyQuery(NamedTuple):
    """The query for one key, as entered in the form."""

    key: str | None = None
    since: str | None = None
    until: str | None = None
    as_of: str | None = None


def tables_page(site: Site) -> tuple[Content, ...]:
    """Return the content of the list."""
    tables = list_tables(site)
    if not tables:
        return (card("", _no_tables(), live="tables", wide=True),)
    rows = (
        (
            link(summary.table, "tables", summary.app, summary.table),
            link(summary.app, "topology", app=summary.app),
            badge("windows", "busy")
            if summary.is_windowed
            else badge("history", "good")
            if summary.has_history
            else badge("rows"),
            by(
                _MANY if summary.rows is None else summary.rows,
                "many" if summary.rows is None else number(summary.rows),
            ),
        )
        for summary in tables
    )
    return (
        card(
            "", table(("Table", "App", "Kind", "Rows"), rows, numeric=(3,), sortable="tables"), live="tables", wide=True
        ),
    )


def _no_tables() -> Markup:
    return empty(
        "There are no tables yet",
        element("p", "A table is the state of an aggregation, by key. Name it, run the app, and read it here:"),
        command("app.stream('lines').group_by_key().count(name='words')"),
    )


def table_page(site: Site, params: ScanParams, query: KeyQuery) -> tuple[Content, ...]:
    """Return the content of the page of one table."""
    assert params.app is not None
    first = scan_table(site, ScanParams(table=params.table, app=params.app, limit=1))
    problem: MillstreamError | None = None
    try:
        rows = scan_table(site, params) if query.key is None else get_row(site, _key_params(params, query, first))
    except MillstreamError as error:
        if query.key is None:
            raise
        problem, rows = error, first
    shown = _rows(rows, query) if problem is None else empty("Not found", element("p", problem.message))
    more = element("p", _MORE_OF_KEY if query.key is not None else _MORE_ROWS, class_="note") if rows.has_more else None
    return (
        card("", _filter(params, query, first), wide=True),
        card("", shown, more if problem is None else None, live="rows", wide=True),
        card("Other ways to read", _other_ways(params, query.key, versions=first.has_history)),
    )


def _key_params(params: ScanParams, query: KeyQuery, table: TablePage) -> KeyParams:
    assert query.key is not None
    times = (query.since, query.until, query.as_of)
    since, until, as_of = (None if text is None else parse_time(text) for text in times)
    return KeyParams(
        table=params.table,
        key=query.key,
        app=params.app,
        since=since,
        until=until,
        as_of=as_of,
        versions=table.has_history and as_of is None,
    )


def _filter(params: ScanParams, query: KeyQuery, table: TablePage) -> Markup:
    key_hint = "all windows of the key" if table.is_windowed else "all versions" if table.has_history else "one row"
    window_fields = (
        field("Starts after", "since", value=query.since, hint="windows of a key: a time, or 10 min for a time ago"),
        field("Starts before", "until", value=query.until, hint="windows of a key: a time, or 10 min for a time ago"),
    )
    history_fields = (field("As of", "as_of", value=query.as_of, hint="the row of a key at that time"),)
    return element(
        "form",
        field("Key", "key", value=query.key, hint=key_hint),
        field("Prefix", "prefix", value=params.prefix, hint="of text keys"),
        field("From", "first", value=params.first, hint="first key, inclusive"),
        field("To", "last", value=params.last, hint="last key, exclusive"),
        *(window_fields if table.is_windowed else history_fields if table.has_history else ()),
        element("div", element("button", "Show", type="submit")),
        class_="filter",
        method="get",
    )


def _rows(page: TablePage, query: KeyQuery) -> Markup:
    if not page.rows:
        return empty("No rows", element("p", "The table is empty, or no row matches. Rows appear with the next batch."))
    if page.has_history and query.key is not None:
        return table(("Value", "Valid from (UTC)", "Until (UTC)", ""), map(_version, page.rows))
    heads = ("Key", *(("Window (UTC)",) if page.is_windowed else ()), "Value", "Time (UTC)", "")
    rows = (_row(row, page.is_windowed) for row in page.rows)
    if not page.has_history:
        return table(heads, rows)
    path = ("tables", page.app, page.table)
    linked = (
        (link(cells[0], *path, key=_key_text(row.key)), *cells[1:]) for row, cells in zip(page.rows, rows, strict=True)
    )
    return joined(element("p", "Choose a key to see the versions of its row.", class_="note"), table(heads, linked))


def _key_text(key: Any) -> str:
    return key if isinstance(key, str) else json_line(key)


def _version(row: RowView) -> tuple[Content, ...]:
    until: Content = moment(row.until, exact=True) if row.until is not None else badge("now", "good")
    value = badge("deleted", "bad") if row.value is None else value_of(row.value)
    return value, moment(row.timestamp, exact=True), until, copy_button(_value_text(row))


def _row(row: RowView, is_windowed: bool) -> tuple[Content, ...]:
    window: tuple[Content, ...] = ()
    if is_windowed:
        end: Content = "forever" if row.end == FOREVER else moment(row.end)
        window = (joined(moment(row.start), " to ", end),)
    return value_of(row.key, 60), *window, value_of(row.value), moment(row.timestamp), copy_button(_value_text(row))


def _value_text(row: RowView) -> str:
    return row.value if isinstance(row.value, str) else json_line(row.value)


def _other_ways(params: ScanParams, key: str | None, *, versions: bool) -> Markup:
    flags = {"versions": "true"} if versions and key is not None else {}
    path = url("api", "tables", params.table, *((key,) if key is not None else ()), app=params.app, **flags)
    exports = [
        element("a", name, href=url("api", "export", params.table, app=params.app, format=kind, prefix=params.prefix))
        for kind, name in (("csv", "CSV"), ("json", "JSON"))
    ]
    arguments = f"scan {params.table}" if key is None else f"get {params.table} {shlex.quote(key)}"
    arguments += " --versions" if flags else ""
    return joined(
        element("p", "Download: ", exports[0], " ", exports[1], " (up to 100,000 rows)"),
        element("p", "From another program, while the app runs:"),
        command(f"curl http://HOST{path}"),
        command(f"millstream tables {arguments} --app {params.app}"),
    )
