"""Bar charts as SVG, readable on light and dark pages."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import NamedTuple

_WIDTH, _LABEL, _ROW, _TITLE, _GAP = 860, 270, 30, 34, 22
_STYLE = (
    "text{font:14px system-ui,sans-serif;fill:#57606a}.title{font-weight:600}"
    ".ours{fill:#1f8a70}.other{fill:#9aa5b1}"
    "@media(prefers-color-scheme:dark){text{fill:#c9d1d9}}"
)


class Bar(NamedTuple):
    """One value; those of Millstream are highlighted."""

    label: str
    value: float
    is_ours: bool


class Panel(NamedTuple):
    """Bars with a common scale."""

    title: str
    bars: tuple[Bar, ...]


def chart_svg(panels: Sequence[Panel]) -> str:
    """Return an SVG document with the panels below each other."""
    parts, y = [], 0
    for panel in panels:
        parts.append(f'<text class="title" x="0" y="{y + 20}">{escape(panel.title)}</text>')
        y += _TITLE
        longest = max(bar.value for bar in panel.bars)
        for bar in panel.bars:
            parts.append(_bar(bar, y, (_WIDTH - _LABEL - 90) * bar.value / longest))
            y += _ROW
        y += _GAP
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {y}" role="img">'
        f"<title>Millstream compared with its peers</title><style>{_STYLE}</style>{''.join(parts)}</svg>\n"
    )


def _bar(bar: Bar, y: int, length: float) -> str:
    kind = "ours" if bar.is_ours else "other"
    value = f"{bar.value:,.0f}" if bar.value >= 100 else f"{bar.value:.1f}"
    return (
        f'<text x="{_LABEL - 12}" y="{y + 16}" text-anchor="end">{escape(bar.label)}</text>'
        f'<rect class="{kind}" x="{_LABEL}" y="{y}" width="{max(2.0, length):.0f}" height="22" rx="3"/>'
        f'<text x="{_LABEL + max(2.0, length) + 8:.0f}" y="{y + 16}">{value}</text>'
    )
