"""Bars as an SVG that reads well on light and dark pages."""

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
    """One figure; ours stand out."""

    label: str
    figure: float
    is_ours: bool


class Panel(NamedTuple):
    """Bars with one scale."""

    title: str
    bars: tuple[Bar, ...]


def drawn(panels: Sequence[Panel]) -> str:
    """Return the picture of some panels, one below the other."""
    parts, at = [], 0
    for panel in panels:
        parts.append(f'<text class="title" x="0" y="{at + 20}">{escape(panel.title)}</text>')
        at += _TITLE
        longest = max(bar.figure for bar in panel.bars)
        for bar in panel.bars:
            parts.append(_bar(bar, at, (_WIDTH - _LABEL - 90) * bar.figure / longest))
            at += _ROW
        at += _GAP
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {at}" role="img">'
        f"<title>Millstream beside its peers</title><style>{_STYLE}</style>{''.join(parts)}</svg>\n"
    )


def _bar(bar: Bar, at: int, length: float) -> str:
    kind = "ours" if bar.is_ours else "other"
    figure = f"{bar.figure:,.0f}" if bar.figure >= 100 else f"{bar.figure:.1f}"
    return (
        f'<text x="{_LABEL - 12}" y="{at + 16}" text-anchor="end">{escape(bar.label)}</text>'
        f'<rect class="{kind}" x="{_LABEL}" y="{at}" width="{max(2.0, length):.0f}" height="22" rx="3"/>'
        f'<text x="{_LABEL + max(2.0, length) + 8:.0f}" y="{at + 16}">{figure}</text>'
    )
