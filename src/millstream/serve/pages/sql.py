"""The SQL page: an editor, the rows of a query as they arrive, and what can be queried."""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

from millstream.serve.api.sql import CatalogParams, CatalogView, ColumnView, QueryView, SourceView, show_catalog
from millstream.serve.html import Content, Markup, element, joined
from millstream.serve.pages.parts import action, badge, card, more, table
from millstream.serve.site import Site
from millstream.sql.parser.cursor import RESERVED
from millstream.sql.types import quoted

_PLAIN_NAME = re.compile(r"[A-Z_][A-Z0-9_]*")
_MAX_ROWS = 1000


def sql_page(site: Site, app: str | None) -> tuple[Content, ...]:
    """Return the content of the page for the SQL of an app, or without one, for topics only."""
    catalog = show_catalog(site, CatalogParams(app=app))
    editor = card("", _editor(catalog))
    result = card(
        "Result",
        element("div", id="sql-error", role="alert", hidden=True),
        element("div", element("p", "Run a statement to see its rows.", class_="note"), id="sql-result"),
    )
    side = card("Catalog", *_catalog(catalog), live="sql-catalog")
    queries = card("Queries", _queries(catalog), live="sql-queries", wide=True) if catalog.queries else None
    return (element("div", element("div", editor, result), side, class_="wide sql"), queries)


def _queries(catalog: CatalogView) -> Markup:
    """Return the queries with their states; those that share their input have their buttons in one row."""
    parts = {tuple(query.together): query for query in catalog.queries}
    heads = ("Queries", "State", "")
    rows = [(", ".join(together), _state(query.state), _steer(catalog, query)) for together, query in parts.items()]
    return table(heads, rows)


def _state(state: str) -> Markup:
    return badge(state.lower(), {"RUNNING": "good", "PAUSED": "busy"}.get(state, "plain"))


def _steer(catalog: CatalogView, query: QueryView) -> Content:
    if query.state == "TERMINATED":
        return "remove its statement from the file"
    if query.state == "PAUSED":
        return _request(catalog, query, "resume", "Resume", "")
    about = f"Pause {', '.join(query.together)}? Nothing is read until it is resumed, also after a restart."
    return _request(catalog, query, "pause", "Pause", about)


def _request(catalog: CatalogView, query: QueryView, verb: str, button: str, confirm: str) -> Markup:
    names = msgspec.json.encode(query.together).decode()
    return action(
        "/api/sql/queries",
        element("input", type="hidden", name="verb", value=verb),
        element("input", type="hidden", name="app", value=catalog.app),
        element("input", type="hidden", name="queries", value=names, data_type="json"),
        button=button,
        confirm=confirm,
    )


def _editor(catalog: CatalogView) -> Markup:
    text = element(
        "textarea",
        _example(catalog.sources),
        id="sql-text",
        rows=8,
        maxlength=100_000,
        spellcheck="false",
        autocomplete="off",
        autocapitalize="off",
        aria_describedby="sql-keys sql-error",
        required=True,
    )
    earliest = element("input", type="checkbox", id="sql-earliest")
    return element(
        "form",
        element("label", element("span", "Statements"), text, class_="field"),
        element("label", earliest, "Queries with EMIT CHANGES begin with the oldest record", class_="check"),
        element(
            "div",
            element("button", "Run", type="submit"),
            element("button", "Explain", type="button", id="sql-explain", class_="second"),
            element("button", "Stop", type="button", id="sql-stop", class_="second", disabled=True),
            element("output", id="sql-state", role="status"),
            class_="sql-buttons",
        ),
        element("small", "Ctrl+Enter runs the statements. The text is kept while the tab is open.", id="sql-keys"),
        id="sql",
        data_app=catalog.app,
        data_max_rows=_MAX_ROWS,
    )


def _example(sources: Iterable[SourceView]) -> str:
    """Return the statement that the editor begins with."""
    stored = next((source for source in sources if source.is_stored), None)
    if stored is not None:
        return f"SELECT * FROM {_written(stored.name)} LIMIT 10;"  # noqa: S608  # the user decides whether it runs
    first = next(iter(sources), None)
    return "SHOW TOPICS;" if first is None else f"SELECT * FROM {_written(first.name)} EMIT CHANGES;"  # noqa: S608


def _catalog(catalog: CatalogView) -> tuple[Content, ...]:
    sources = [element("li", _source(source)) for source in catalog.sources]
    kinds = {kind: [each.name for each in catalog.functions if each.kind == kind] for kind in _KINDS}
    return (
        element("p", "A click inserts a name into the editor.", class_="note"),
        element("ul", *sources, class_="sources") if sources else _no_sources(),
        *(
            more(
                f"{title} ({len(kinds[kind])})",
                element("p", *(_insert(name, f"{name}(") for name in kinds[kind]), class_="functions"),
                id=f"functions-{kind}",
            )
            for kind, title in _KINDS.items()
        ),
    )


_KINDS = {"scalar": "Functions", "aggregate": "Aggregates", "table": "Table functions"}


def _no_sources() -> Markup:
    about = "No app here is written in SQL. Any topic can be queried once a statement describes it:"
    code = "CREATE STREAM s (id INT KEY, name STRING) WITH (KAFKA_TOPIC = 'topic', VALUE_FORMAT = 'JSON');"
    return joined(element("p", about, class_="note"), element("pre", code))


def _source(source: SourceView) -> Markup:
    columns = [element("li", _insert(each.name, _written(each.name)), " ", _type(each)) for each in source.columns]
    statement = element("pre", source.statement) if source.statement else None
    return joined(
        element(
            "p",
            _insert(source.name, _written(source.name)),
            " ",
            badge(source.kind, "good" if source.kind == "table" else "plain"),
            badge("windows", "busy") if source.is_windowed else None,
        ),
        more(
            f"Columns of topic {source.topic}",
            element("ul", *columns, class_="columns"),
            statement,
            id=f"source-{source.name}",
        ),
    )


def _type(column: ColumnView) -> Markup:
    return element("small", column.type, " key" if column.is_key else None)


def _insert(name: str, text: str) -> Markup:
    return element("button", name, type="button", class_="insert", data_insert=text, data_focus=f"insert-{text}")


def _written(name: str) -> str:
    """Return a name as a query writes it: quoted only if it must be."""
    return name if _PLAIN_NAME.fullmatch(name) and name not in RESERVED else quoted(name)
