"""The first rows of a table as HTML; every cell is escaped."""

from __future__ import annotations

from datetime import datetime
from itertools import islice
from typing import Any

from millstream.foundation.text import format_count, format_value
from millstream.serve.html import Markup, element
from millstream.tables.frames import columns_of, in_order
from millstream.tables.rows import Row, TableReader

SHOWN_ROWS = 20
_MAX_CELL = 200


def first_rows(table: TableReader, limit: int = SHOWN_ROWS) -> str:
    """Return the first rows by key, or the latest windows."""
    if table.has_windows:
        rows = sorted(in_order(table.scan()), key=lambda row: -int(row.key.start))
        return rows_html(table, rows[:limit], f"the latest of {format_count(len(rows), 'window')}", len(rows))
    rows = in_order(table.scan(limit=limit))
    total = len(table)
    return rows_html(table, list(islice(rows, limit)), f"the first of {format_count(total, 'row')}", total)


def rows_html(table: TableReader, rows: list[Row], part: str, total: int) -> Markup:
    """Return rows as an HTML table whose caption says how many there are."""
    columns = columns_of(rows, windowed=table.has_windows)
    kind = "window" if table.has_windows else "row"
    count = part if len(rows) < total else format_count(total, kind)
    head = element("tr", *(element("th", name) for name in columns))
    lines = zip(*columns.values(), strict=True)
    body = element("tbody", *(element("tr", *(element("td", cell_text(cell)) for cell in line)) for line in lines))
    caption = element("p", element("strong", table.name), f": {count}")
    return element("div", caption, element("table", element("thead", head), body, class_="dataframe"))


def cell_text(cell: Any) -> str:
    """Return a cell as short text.

    >>> cell_text(None), cell_text([1, "a"]), cell_text(datetime(2026, 1, 2, 3, 4, 5))
    ('', '[1,"a"]', '2026-01-02 03:04:05')
    """
    if cell is None:
        return ""
    if isinstance(cell, datetime):
        return cell.replace(tzinfo=None).isoformat(" ", "milliseconds" if cell.microsecond else "seconds")
    text = format_value(cell)
    return text if len(text) <= _MAX_CELL else f"{text[: _MAX_CELL - 1]}…"
