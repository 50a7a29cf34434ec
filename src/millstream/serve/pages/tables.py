"""Tables: every named store, and one of them by key, prefix, range and time."""

from __future__ import annotations

import shlex

from millstream.browse.text import json_line
from millstream.errors import MillstreamError
from millstream.serve.api.tables import KeyParams, Rows, ScanParams, ShownRow, get_row, list_tables, scan_table
from millstream.serve.html import Content, Markup, element, joined
from millstream.serve.pages.parts import (
    badge,
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


def tables_page(site: Site) -> tuple[Content, ...]:
    """Return the content of the list."""
    found = list_tables(site)
    if not found:
        return (card("", _nothing(), live="tables", wide=True),)
    rows = (
        (
            link(one.table, "tables", one.app, one.table),
            link(one.app, "topology", app=one.app),
            badge("windows", "busy") if one.is_windowed else badge("rows"),
            number(one.rows) if one.rows is not None else "many",
        )
        for one in found
    )
    return (card("", table(("Table", "App", "Kind", "Rows"), rows, numeric=(3,)), live="tables", wide=True),)


def _nothing() -> Markup:
    return empty(
        "There are no tables yet",
        element(
            "p",
            "A table is what a count or a join remembers, by key. Name it, run the app, and read it here:",
        ),
        command("app.stream('lines').group_by_key().count(name='words')"),
    )


def table_page(site: Site, params: ScanParams, key: str | None, since: int | None) -> tuple[Content, ...]:
    """Return the content of the page of one table."""
    assert params.app is not None
    problem: MillstreamError | None = None
    try:
        found = (
            scan_table(site, params)
            if key is None
            else get_row(site, KeyParams(table=params.table, key=key, app=params.app, since=since))
        )
    except MillstreamError as error:
        if key is None:
            raise
        problem, found = error, scan_table(site, ScanParams(table=params.table, app=params.app, limit=1))
    shown = _rows(found) if problem is None else empty("Not there", element("p", problem.message))
    more = (
        element("p", "There are more rows; narrow the prefix or the range.", class_="told") if found.has_more else None
    )
    return (
        card("", _filter(params, key, found.is_windowed), wide=True),
        card("", shown, more if problem is None else None, live="rows", wide=True),
        card("Elsewhere", _elsewhere(params, key)),
    )


def _filter(params: ScanParams, key: str | None, is_windowed: bool) -> Markup:
    return element(
        "form",
        field("Key", "key", value=key, hint="one row, or all windows of the key" if is_windowed else "one row"),
        field("Prefix", "prefix", value=params.prefix, hint="text keys that begin so"),
        field("From", "first", value=params.first, hint="keys from here"),
        field("To", "last", value=params.last, hint="keys before this"),
        element("div", element("button", "Show", type="submit")),
        class_="filter",
        method="get",
    )


def _rows(found: Rows) -> Markup:
    if not found.rows:
        return empty("No rows", element("p", "The table is empty, or nothing fits. Rows appear with the next batch."))
    heads = ("Key", *(("Window",) if found.is_windowed else ()), "Value", "Time", "")
    return table(heads, (_row(one, found.is_windowed) for one in found.rows))


def _row(one: ShownRow, is_windowed: bool) -> tuple[Content, ...]:
    window: tuple[Content, ...] = ()
    if is_windowed:
        end: Content = "for ever" if one.end == FOREVER else moment(one.end)
        window = (joined(moment(one.start), " to ", end),)
    copied = one.value if isinstance(one.value, str) else json_line(one.value)
    return value_of(one.key, 60), *window, value_of(one.value), moment(one.timestamp), copy_button(copied)


def _elsewhere(params: ScanParams, key: str | None) -> Markup:
    path = url("api", "tables", params.table, *((key,) if key is not None else ()), app=params.app)
    exports = [
        element("a", name, href=url("api", "export", params.table, app=params.app, format=kind, prefix=params.prefix))
        for kind, name in (("csv", "CSV"), ("json", "JSON"))
    ]
    verb = f"scan {params.table}" if key is None else f"get {params.table} {shlex.quote(key)}"
    return joined(
        element("p", "Download: ", exports[0], " ", exports[1], " (up to 100,000 rows)"),
        element("p", "From a program, while the app runs:"),
        command(f"curl http://HOST{path}"),
        command(f"millstream tables {verb} --app {params.app}"),
    )
