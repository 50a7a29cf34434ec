"""Tables: every named store, and one of them by key, prefix, range and time."""

from __future__ import annotations

import shlex
from typing import Any, NamedTuple

from millstream.errors import DefinitionError, MillstreamError
from millstream.foundation.text import json_line
from millstream.foundation.times import parse_timestamp
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

_MORE_ROWS = "There are more rows; narrow the prefix or the range."
_MORE_OF_KEY = "There are older ones; ask for another time."


class Asked(NamedTuple):
    """What is asked of one key, as it was typed."""

    key: str | None = None
    since: str | None = None
    until: str | None = None
    as_of: str | None = None


def tables_page(site: Site) -> tuple[Content, ...]:
    """Return the content of the list."""
    found = list_tables(site)
    if not found:
        return (card("", _nothing(), live="tables", wide=True),)
    rows = (
        (
            link(one.table, "tables", one.app, one.table),
            link(one.app, "topology", app=one.app),
            badge("windows", "busy")
            if one.is_windowed
            else badge("history", "good")
            if one.has_history
            else badge("rows"),
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


def table_page(site: Site, params: ScanParams, asked: Asked) -> tuple[Content, ...]:
    """Return the content of the page of one table."""
    assert params.app is not None
    kind = scan_table(site, ScanParams(table=params.table, app=params.app, limit=1))
    problem: MillstreamError | None = None
    try:
        found = scan_table(site, params) if asked.key is None else get_row(site, _key_params(params, asked, kind))
    except MillstreamError as error:
        if asked.key is None:
            raise
        problem, found = error, kind
    shown = _rows(found, asked) if problem is None else empty("Not there", element("p", problem.message))
    more = (
        element("p", _MORE_OF_KEY if asked.key is not None else _MORE_ROWS, class_="told") if found.has_more else None
    )
    return (
        card("", _filter(params, asked, kind), wide=True),
        card("", shown, more if problem is None else None, live="rows", wide=True),
        card("Elsewhere", _elsewhere(params, asked.key, versions=kind.has_history)),
    )


def _key_params(params: ScanParams, asked: Asked, kind: Rows) -> KeyParams:
    assert asked.key is not None
    since, until, as_of = (_moment(text) for text in (asked.since, asked.until, asked.as_of))
    return KeyParams(
        table=params.table,
        key=asked.key,
        app=params.app,
        since=since,
        until=until,
        as_of=as_of,
        versions=kind.has_history and as_of is None,
    )


def _moment(text: str | None) -> int | None:
    if text is None:
        return None
    found = int(text) if text.isascii() and text.isdigit() and len(text) < 18 else parse_timestamp(text)
    if found is None or found < 0:
        raise DefinitionError(f"{text!r:.60} is no time", hint='write "2025-01-31T12:00" or, for a time ago, "10 min"')
    return found


def _filter(params: ScanParams, asked: Asked, kind: Rows) -> Markup:
    what = "all windows of the key" if kind.is_windowed else "all its versions" if kind.has_history else "one row"
    in_time = (
        field("Begins after", "since", value=asked.since, hint="windows of a key: a time, or 10 min for ago"),
        field("Begins before", "until", value=asked.until, hint="windows of a key: the same"),
    )
    as_of = (field("As of", "as_of", value=asked.as_of, hint="the row of a key as it was then"),)
    return element(
        "form",
        field("Key", "key", value=asked.key, hint=what),
        field("Prefix", "prefix", value=params.prefix, hint="text keys that begin so"),
        field("From", "first", value=params.first, hint="keys from here"),
        field("To", "last", value=params.last, hint="keys before this"),
        *(in_time if kind.is_windowed else as_of if kind.has_history else ()),
        element("div", element("button", "Show", type="submit")),
        class_="filter",
        method="get",
    )


def _rows(found: Rows, asked: Asked) -> Markup:
    if not found.rows:
        return empty("No rows", element("p", "The table is empty, or nothing fits. Rows appear with the next batch."))
    if found.has_history and asked.key is not None:
        return table(("Value", "Valid from", "Until", ""), (_version(one) for one in found.rows))
    heads = ("Key", *(("Window",) if found.is_windowed else ()), "Value", "Time", "")
    rows = (_row(one, found.is_windowed) for one in found.rows)
    if not found.has_history:
        return table(heads, rows)
    path = ("tables", found.app, found.table)
    linked = (
        (link(cells[0], *path, key=_typed(one.key)), *cells[1:]) for one, cells in zip(found.rows, rows, strict=True)
    )
    return joined(element("p", "Choose a key to see the versions of its row.", class_="told"), table(heads, linked))


def _typed(key: Any) -> str:
    return key if isinstance(key, str) else json_line(key)


def _version(one: ShownRow) -> tuple[Content, ...]:
    until: Content = moment(one.until, exact=True) if one.until is not None else badge("now", "good")
    value = badge("deleted", "bad") if one.value is None else value_of(one.value)
    return value, moment(one.timestamp, exact=True), until, copy_button(_copied(one))


def _row(one: ShownRow, is_windowed: bool) -> tuple[Content, ...]:
    window: tuple[Content, ...] = ()
    if is_windowed:
        end: Content = "for ever" if one.end == FOREVER else moment(one.end)
        window = (joined(moment(one.start), " to ", end),)
    return value_of(one.key, 60), *window, value_of(one.value), moment(one.timestamp), copy_button(_copied(one))


def _copied(one: ShownRow) -> str:
    return one.value if isinstance(one.value, str) else json_line(one.value)


def _elsewhere(params: ScanParams, key: str | None, *, versions: bool) -> Markup:
    told = {"versions": "true"} if versions and key is not None else {}
    path = url("api", "tables", params.table, *((key,) if key is not None else ()), app=params.app, **told)
    exports = [
        element("a", name, href=url("api", "export", params.table, app=params.app, format=kind, prefix=params.prefix))
        for kind, name in (("csv", "CSV"), ("json", "JSON"))
    ]
    verb = f"scan {params.table}" if key is None else f"get {params.table} {shlex.quote(key)}"
    verb += " --versions" if told else ""
    return joined(
        element("p", "Download: ", exports[0], " ", exports[1], " (up to 100,000 rows)"),
        element("p", "From a program, while the app runs:"),
        command(f"curl http://HOST{path}"),
        command(f"millstream tables {verb} --app {params.app}"),
    )
