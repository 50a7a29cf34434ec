"""Building blocks of pages: numbers, times, badges, tables, empty states, forms."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote, urlencode

from millstream.foundation.text import format_value
from millstream.serve.html import Content, Markup, element, joined

_FIND_FROM_ROWS = 20
_UNITS = ("B", "kB", "MB", "GB", "TB")
NAME_PATTERN = r"[A-Za-z0-9_\-][A-Za-z0-9._\-]*"
"""Valid names, as a pattern for browsers."""
NOTHING = Markup('<span class="none">&ndash;</span>')


def url(*parts: str, **query: Any) -> str:
    """Return a URL of this site; every part is quoted, so that no name can change the path.

    >>> url("topics", "a/b", start=None, key="ä")
    '/topics/a%2Fb?key=%C3%A4'
    """
    present = {name: value for name, value in query.items() if value is not None}
    path = "/" + "/".join(quote(part, safe="") for part in parts)
    return f"{path}?{urlencode(present)}" if present else path


def link(text: Content, *parts: str, **query: Any) -> Markup:
    """Return a link within this site."""
    return element("a", text, href=url(*parts, **query))


def number(value: float | None) -> Content:
    """Return a number with thousands separators.

    >>> number(1234567), number(0.5)
    ('1,234,567', '0.5')
    """
    if value is None:
        return NOTHING
    if isinstance(value, int) or value == int(value):
        return f"{int(value):,}"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:,.1f}"


def identifier(value: int | None) -> Content:
    """Return a number that is an id or a position, not a quantity: without thousands separators.

    >>> identifier(1234567)
    '1234567'
    """
    return NOTHING if value is None else str(value)


def by(value: float | None, content: Content) -> Markup:
    """Return the content of a cell with the value by which its column is sorted."""
    return element("span", content, data_value="" if value is None else value)


def rate(value: float | None) -> Content:
    """Return records per second."""
    return NOTHING if value is None else joined(number(round(value, 1)), element("span", "/s", class_="unit"))


def size(count: int | None) -> Content:
    """Return a number of bytes with a unit.

    >>> size(999), size(1_500_000)
    ('999 B', '1.5 MB')
    """
    if count is None:
        return NOTHING
    shown, unit = float(count), 0
    while shown >= 1000 and unit < len(_UNITS) - 1:
        shown, unit = shown / 1000, unit + 1
    return f"{shown:,.0f} {_UNITS[unit]}" if shown >= 100 or unit == 0 else f"{shown:,.1f} {_UNITS[unit]}"


def duration(milliseconds: float | None) -> Content:
    """Return a duration in a suitable unit.

    >>> duration(12.3), duration(1500), duration(120_000)
    ('12 ms', '1.5 s', '2.0 min')
    """
    if milliseconds is None:
        return NOTHING
    if milliseconds < 1000:
        return f"{milliseconds:.0f} ms"
    seconds = milliseconds / 1000
    if seconds < 100:
        return f"{seconds:.1f} s"
    for length, unit in ((3600, "min"), (86_400, "h")):
        if seconds < 2 * length:
            return f"{seconds / (60 if unit == 'min' else 3600):.1f} {unit}"
    return f"{seconds / 86_400:,.0f} d"


def micros(value: float | None) -> Content:
    """Return microseconds.

    >>> micros(0.42), micros(1234.5)
    ('0.4 µs', '1.2 ms')
    """
    if value is None:
        return NOTHING
    return f"{value:.1f} µs" if value < 1000 else f"{value / 1000:.1f} ms"


def moment(timestamp: int | None, *, exact: bool = False) -> Content:
    """Return a point in time in UTC, in seconds or ``exact`` in milliseconds, with the full timestamp as tooltip."""
    if timestamp is None:
        return NOTHING
    try:
        at = datetime.fromtimestamp(timestamp / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return str(timestamp)
    is_today = at.date() == datetime.now(UTC).date()
    short = at.strftime("%H:%M:%S" if is_today else "%Y-%m-%d %H:%M:%S")
    short += f".{timestamp % 1000:03}" if exact else ""
    return element("time", short, datetime=at.isoformat(), title=f"{at.isoformat()} ({timestamp})")


def ago(timestamp: int | None) -> Content:
    """Return how long ago a timestamp is."""
    if timestamp is None:
        return NOTHING
    passed = max(0, time.time_ns() // 1_000_000 - timestamp)
    return "just now" if passed < 2000 else joined(duration(passed), " ago")


def badge(text: str, tone: str = "plain") -> Markup:
    """Return a highlighted word; tones are good, busy, bad and plain."""
    return element("span", text, class_=f"badge {tone}")


def state_badge(state: str) -> Markup:
    """Return the state of an app."""
    tones = {"running": "good", "waiting": "good", "catching up": "busy", "failed": "bad"}
    return badge(state, tones.get(state, "plain"))


def value_of(value: Any, max_length: int = 160) -> Markup:
    """Return a key or value as code; a long one is truncated and can be expanded."""
    if value is None:
        return element("code", "null", class_="none")
    text = format_value(value)
    if len(text) <= max_length:
        return element("code", text)
    short = element("summary", element("code", text[:max_length] + "…"))
    return element("details", short, element("pre", text[:65_536]), class_="value")


def table(
    heads: Sequence[Content], rows: Iterable[Sequence[Content]], *, numeric: Sequence[int] = (), sortable: str = ""
) -> Markup:
    """Return a table; ``numeric`` columns are aligned right, and on a narrow screen each cell shows its heading.

    With a name as ``sortable``, a click on a heading sorts the rows: by the value given with ``by``, or else by text.
    """
    names = [head if isinstance(head, str) else "" for head in heads]

    def heading(column: int, content: Content) -> Markup:
        can_sort = sortable and names[column]
        button = element("button", content, type="button", data_focus=f"{sortable}-{column}") if can_sort else content
        return element("th", button, class_="num" if column in numeric else None, scope="col")

    def cell(column: int, content: Content) -> Markup:
        inner = element("div", content)  # a single child, next to the label
        return element("td", inner, class_="num" if column in numeric else None, data_label=names[column] or None)

    head = element("tr", *(heading(column, content) for column, content in enumerate(heads)))
    body = [
        element(
            "tr", *(cell(column, content) for column, content in enumerate(row)), data_row=number if sortable else None
        )
        for number, row in enumerate(rows)
    ]
    inner = element("table", element("thead", head), element("tbody", *body), data_sortable=sortable or None)
    return joined(
        _find(sortable) if sortable and len(body) > _FIND_FROM_ROWS else None,
        element("div", inner, class_="table sortable" if sortable else "table", tabindex=0),
    )


def _find(name: str) -> Markup:
    """Return a field that filters the rows of a table while the user types."""
    return element(
        "input", type="search", class_="find", placeholder="Filter", aria_label=f"Filter {name}", data_find=name
    )


def empty(title: str, *content: Content) -> Markup:
    """Return an empty state, which explains what to do."""
    return element("div", element("h3", title), *content, class_="empty")


def command(text: str) -> Markup:
    """Return a command or a line of code, with a button to copy it."""
    return element("div", element("code", text), copy_button(text), class_="command")


def copy_button(text: str) -> Markup:
    """Return a button that copies a text."""
    return element("button", "Copy", type="button", class_="copy", data_copy=text)


def card(title: Content, *content: Content, live: str = "", wide: bool = False) -> Markup:
    """Return a section; with an id as ``live``, its content is replaced when the page refreshes."""
    heading = element("h2", title) if title else None
    inner = element("div", *content, id=live, data_live=True) if live else joined(*content)
    return element("section", heading, inner, class_="card wide" if wide else "card")


def facts(*pairs: tuple[str, Content]) -> Markup:
    """Return a list of names and values."""
    return element(
        "dl", *(element("div", element("dt", name), element("dd", fact)) for name, fact in pairs), class_="facts"
    )


def field(label: str, name: str, kind: str = "text", *, hint: str = "", **attributes: Any) -> Markup:
    """Return a labelled input; ``hint`` explains what to enter."""
    input_ = element("input", name=name, type=kind, **attributes)
    return element("label", element("span", label), input_, element("small", hint) if hint else None, class_="field")


def choice(label: str, name: str, options: Iterable[tuple[str, str]], selected: str = "", **attributes: Any) -> Markup:
    """Return a labelled selection."""
    items = [element("option", text, value=value, selected=value == selected) for value, text in options]
    return element("label", element("span", label), element("select", *items, name=name, **attributes), class_="field")


def action(
    path: str, *content: Content, button: str, then: str = "reload", confirm: str = "", tone: str = ""
) -> Markup:
    """Return a form that is sent to the API as JSON by the page's script."""
    return element(
        "form",
        *content,
        element("div", element("button", button, type="submit", class_=tone or None), element("output", role="status")),
        class_="action",
        data_action=path,
        data_then=then,
        data_confirm=confirm or None,
    )


def more(summary: str, *content: Content, id: str, open: bool = False) -> Markup:
    """Return a collapsed section, which stays open when the page refreshes."""
    return element("details", element("summary", summary), *content, id=id, open=open, class_="more")
