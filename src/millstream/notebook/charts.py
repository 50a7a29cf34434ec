"""Charts of a table as SVG: windows as lines over time, other tables as bars."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any

from millstream.errors import DefinitionError
from millstream.notebook.tables import cell_text
from millstream.serve.html import Content, Markup, element
from millstream.tables.frames import columns_of, in_order
from millstream.tables.rows import TableReader

_WIDTH, _HEIGHT = 720, 260
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 150, 34, 26
_BAR, _LABEL, _NUMBER = 22, 170, 90
_MAX_POINTS = 200
_COLOURS = ("#0f766e", "#d97706", "#7c3aed", "#b91c1c", "#2563eb", "#15803d", "#be185d", "#64748b")
_STYLE = """
svg { background: #f7f9f9; border-radius: 8px; font-family: system-ui, "Segoe UI", "Noto Sans", sans-serif; }
text { font-size: 12px; fill: #16211f; }
.title { font-size: 14px; font-weight: 650; }
.axis { fill: #56645f; }
.grid { stroke: #d9e0de; }
"""
_NOT_NUMBERS = frozenset({"key", "window_start", "window_end", "timestamp"})


def chart(table: TableReader, y: str | None, limit: int) -> str:
    """Return a chart of the column ``y``, by default the first with numbers, of at most ``limit`` keys."""
    columns = columns_of(in_order(table.scan()), windowed=table.has_windows)
    column = _number_column(table, columns, y)
    title = f"{table.name}: {column}"
    keys = [", ".join(map(cell_text, parts)) for parts in zip(*_key_columns(columns), strict=True)]
    numbers = [_number(cell) for cell in columns.get(column, [])]
    if not table.has_windows:
        bars = [(key, number) for key, number in zip(keys, numbers, strict=True) if number is not None]
        return _bars(title, sorted(bars, key=lambda bar: -abs(bar[1]))[:limit])
    lines: dict[str, list[tuple[datetime, float]]] = {}
    for key, start, number in zip(keys, columns["window_start"], numbers, strict=True):
        if start is not None and number is not None:
            lines.setdefault(key, []).append((start, number))
    largest = sorted(lines, key=lambda key: -sum(abs(number) for _, number in lines[key]))[:limit]
    return _lines(title, {key: lines[key][-_MAX_POINTS:] for key in largest})


def _key_columns(columns: dict[str, list[Any]]) -> list[list[Any]]:
    return [cells for name, cells in columns.items() if name == "key" or name.startswith("key.")]


def _number(cell: Any) -> float | None:
    """Return a number that can be drawn; None for infinity and what a float cannot hold."""
    if not isinstance(cell, int | float | Decimal) or isinstance(cell, bool):
        return None
    try:
        number = float(cell)
    except (OverflowError, ValueError):  # a large integer, a signalling NaN
        return None
    return number if math.isfinite(number) else None


def _number_column(table: TableReader, columns: dict[str, list[Any]], y: str | None) -> str:
    choices = [name for name in columns if name not in _NOT_NUMBERS and not name.startswith("key.")]
    numeric = [name for name in choices if any(_number(cell) is not None for cell in columns[name])]
    if y is not None and columns["timestamp"] and y not in numeric:
        raise DefinitionError(
            f"column {y!r} of table {table.name!r} has no numbers",
            hint=f"choose y= from: {', '.join(numeric) or 'none, since no column has numbers'}",
        )
    if columns["timestamp"] and not numeric:
        raise DefinitionError(f"no column of table {table.name!r} has numbers", hint="show it with live_table()")
    return y or next(iter(numeric), "value")


def _svg(height: float, title: str, *content: Content) -> str:
    return element(
        "svg",
        element("style", Markup(_STYLE)),
        element("text", title, x=12, y=20, class_="title"),
        *content,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {_WIDTH} {height:.0f}",
        width=_WIDTH,
        height=f"{height:.0f}",
        role="img",
        aria_label=title,
    )


def _text(text: str, x: float, y: float, anchor: str = "start", class_: str | None = None) -> Markup:
    return element("text", text, x=f"{x:.1f}", y=f"{y:.1f}", text_anchor=anchor, class_=class_)


def _short(text: str, length: int = 20) -> str:
    return text if len(text) <= length else f"{text[: length - 1]}…"


def _bars(title: str, bars: Sequence[tuple[str, float]]) -> str:
    longest = max((abs(number) for _, number in bars), default=0) or 1.0
    room = _WIDTH - _LABEL - _NUMBER
    content: list[Content] = []
    for index, (key, number) in enumerate(bars):
        top = _TOP + index * _BAR
        length = abs(number) / longest * room
        bar = element(
            "rect", element("title", key), x=_LABEL, y=f"{top:.0f}", width=f"{max(1.0, length):.1f}",
            height=_BAR - 5, rx=3, fill=_COLOURS[0] if number >= 0 else _COLOURS[3],
        )  # fmt: skip
        middle = top + _BAR / 2 + 2
        label = _text(_short(key), _LABEL - 8, middle, "end")
        content += [label, bar, _text(f"{number:,g}", _LABEL + length + 6, middle)]
    if not bars:
        content.append(_text("no rows yet", 12, _TOP + 16, class_="axis"))
    return _svg(_TOP + max(1, len(bars)) * _BAR + 10, title, *content)


def _lines(title: str, lines: dict[str, list[tuple[datetime, float]]]) -> str:
    points = [point for line in lines.values() for point in line]
    if not points:
        return _svg(_TOP + 32, title, _text("no windows yet", 12, _TOP + 16, class_="axis"))
    first, last = min(time for time, _ in points), max(time for time, _ in points)
    low, high = min(0.0, *(number for _, number in points)), max(0.0, *(number for _, number in points))
    seconds = (last - first).total_seconds() or 1.0
    width, height = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM

    def x(time: datetime) -> float:
        return _LEFT + (time - first).total_seconds() / seconds * width

    def y(number: float) -> float:
        return _TOP + height - (number - low) / ((high - low) or 1.0) * height

    content: list[Content] = []
    for number in (low, (low + high) / 2, high):
        content.append(element("path", d=f"M{_LEFT} {y(number):.1f} H{_LEFT + width}", class_="grid"))
        content.append(_text(f"{number:,.4g}", _LEFT - 8, y(number) + 4, "end", "axis"))
    content.append(_text(cell_text(first), _LEFT, _HEIGHT - 8, class_="axis"))
    if last > first:
        content.append(_text(cell_text(last), _LEFT + width, _HEIGHT - 8, "end", "axis"))
    for index, (key, line) in enumerate(lines.items()):
        colour = _COLOURS[index % len(_COLOURS)]
        path = " ".join(f"{x(time):.1f},{y(number):.1f}" for time, number in line)
        dots = [element("circle", cx=f"{x(t):.1f}", cy=f"{y(n):.1f}", r=2.5, fill=colour) for t, n in line]
        content.append(element("polyline", points=path, fill="none", stroke=colour, stroke_width=2))
        content += dots
        content.append(element("rect", x=_WIDTH - _RIGHT + 14, y=_TOP + index * 18, width=10, height=10, fill=colour))
        content.append(_text(_short(key, 16), _WIDTH - _RIGHT + 30, _TOP + 9 + index * 18))
    return _svg(max(_HEIGHT, _TOP + len(lines) * 18 + 10), title, *content)
