"""Draw lanes of records, rows and windows along one axis as SVG; the output is deterministic."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import Literal

Kind = Literal["record", "row", "result", "late"]

_COLOURS: dict[Kind, tuple[str, str]] = {
    "record": ("#d7ebff", "#1c5d99"),
    "row": ("#f2ecd8", "#7a6417"),
    "result": ("#d9f2e0", "#1e6b3a"),
    "late": ("#fde0dc", "#a3281c"),
}
_WIDTH = 840
_GUTTER = 150
_RIGHT = 40
_TOP = 16
_GAP = 12
_CHARACTER_WIDTH = 6.7
"""The width of one character of an 11-pixel monospaced font."""
_LINE = 15
_TRACK = 20


@dataclass(frozen=True, slots=True)
class Mark:
    """A text at a position on the axis; lines are separated by ``\\n``."""

    at: float
    text: str
    kind: Kind = "record"


@dataclass(frozen=True, slots=True)
class Bar:
    """A text over a section of the axis."""

    start: float
    end: float
    text: str
    kind: Kind = "row"


@dataclass(frozen=True, slots=True)
class Lane:
    """A titled row of marks and bars; overlapping bars are drawn on separate tracks."""

    title: str
    marks: Sequence[Mark] = ()
    bars: Sequence[Bar] = ()


@dataclass(frozen=True, slots=True)
class Picture:
    """Lanes above an axis with ticks; ``description`` is the text for screen readers."""

    description: str
    lanes: Sequence[Lane]
    ticks: Sequence[tuple[float, str]]
    axis: str
    first: float
    last: float


def svg(picture: Picture) -> str:
    """Return the picture as an SVG document that is readable on light and dark pages."""
    body: list[str] = []
    top = float(_TOP)
    for lane in picture.lanes:
        height, drawn = _lane(lane, picture, top)
        body += drawn
        top += height + _GAP
    body += _axis(picture, top)
    height = round(top + 40)
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}" '
        f'role="img" aria-label="{escape(picture.description)}" font-family="ui-monospace, Menlo, Consolas, monospace" '
        f'font-size="11">\n<title>{escape(picture.description)}</title>\n'
        f'<rect width="{_WIDTH}" height="{height}" rx="8" fill="#fcfcfa"/>'
    )
    return "\n".join([head, *body, "</svg>"]) + "\n"


def _x(picture: Picture, at: float) -> float:
    return _GUTTER + (at - picture.first) / (picture.last - picture.first) * (_WIDTH - _GUTTER - _RIGHT)


def _lane(lane: Lane, picture: Picture, top: float) -> tuple[float, list[str]]:
    """Return the height of a lane and its shapes."""
    tracks = _tracks(lane.bars)
    bars_height = _TRACK * (max(tracks) + 1) if tracks else 0
    lines = max((mark.text.count("\n") + 1 for mark in lane.marks), default=0)
    marks_height = lines * _LINE + 8 if lines else 0
    height = max(bars_height + marks_height, _TRACK + lane.title.count("\n") * _LINE)
    drawn = [
        f'<rect x="8" y="{top:g}" width="{_WIDTH - 16}" height="{height:g}" rx="4" fill="#f1f1ec"/>',
    ]
    drawn += _texts(16, top + height / 2 + 4, lane.title.split("\n"), "#333", anchor="start", weight="bold")
    for bar, track in zip(lane.bars, tracks, strict=True):
        left, right = _x(picture, bar.start), _x(picture, bar.end)
        drawn += _box(left, top + track * _TRACK + 2, right - left, _TRACK - 4, [bar.text], bar.kind)
    for mark in lane.marks:
        rows = mark.text.split("\n")
        width = max(map(len, rows)) * _CHARACTER_WIDTH + 12
        middle = top + bars_height + marks_height / 2
        high = len(rows) * _LINE + 2
        drawn += _box(_x(picture, mark.at) - width / 2, middle - high / 2, width, high, rows, mark.kind)
    return height, drawn


def _tracks(bars: Sequence[Bar]) -> list[int]:
    """Return for each bar the first track on which it overlaps no other bar."""
    ends: list[float] = []
    tracks: list[int] = []
    for bar in bars:
        track = next((number for number, end in enumerate(ends) if end <= bar.start), len(ends))
        ends[track : track + 1] = [bar.end]
        tracks.append(track)
    return tracks


def _box(left: float, top: float, width: float, height: float, rows: Sequence[str], kind: Kind) -> Iterator[str]:
    fill, ink = _COLOURS[kind]
    yield (
        f'<rect x="{left:.1f}" y="{top:.1f}" width="{width:.1f}" height="{height:.1f}" rx="4" '
        f'fill="{fill}" stroke="{ink}"/>'
    )
    yield from _texts(left + width / 2, top + height / 2 + 4, rows, ink)


def _axis(picture: Picture, top: float) -> Iterator[str]:
    yield f'<line x1="{_GUTTER - 20}" y1="{top:g}" x2="{_WIDTH - 12}" y2="{top:g}" stroke="#888"/>'
    yield f'<path d="M{_WIDTH - 12} {top - 4:g} l8 4 l-8 4 z" fill="#888"/>'
    yield _text(16, top + 18, picture.axis, "#666", anchor="start")
    for at, label in picture.ticks:
        x = _x(picture, at)
        yield f'<line x1="{x:.1f}" y1="{top:g}" x2="{x:.1f}" y2="{top + 5:g}" stroke="#888"/>'
        yield _text(x, top + 18, label, "#666")


def _texts(
    x: float, y: float, rows: Sequence[str], ink: str, *, anchor: str = "middle", weight: str = "normal"
) -> Iterator[str]:
    """Yield text lines centred vertically on ``y``."""
    for number, row in enumerate(rows):
        yield _text(x, y + (number - (len(rows) - 1) / 2) * _LINE, row, ink, anchor=anchor, weight=weight)


def _text(x: float, y: float, text: str, ink: str, *, anchor: str = "middle", weight: str = "normal") -> str:
    bold = ' font-weight="bold"' if weight == "bold" else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" fill="{ink}" text-anchor="{anchor}"{bold}>{escape(text)}</text>'
