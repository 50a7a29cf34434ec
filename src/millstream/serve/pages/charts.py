"""Small charts as SVG; every colour is a class of the style sheet, since the policy forbids inline styles.

Text is HTML beside the drawing, so that it keeps its size when the drawing is stretched.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from millstream.serve.api.apps import BatchTimes
from millstream.serve.history import HistoryPoint
from millstream.serve.html import Content, Markup, element, joined

PHASES = ("plan", "run", "publish", "done")
_WIDTH, _HEIGHT, _GAP = 720, 120, 2
_TREND_HEIGHT = 100
_DURATIONS = (
    10,
    20,
    50,
    100,
    200,
    500,
    *(1000 * seconds for seconds in (1, 2, 5, 10, 20, 60, 120, 240, 600, 1200, 3600)),
)
Number = float | None


class Series(NamedTuple):
    """A line of a chart; None leaves a gap."""

    name: str
    values: Sequence[Number]


def timeline(batches: Sequence[BatchTimes]) -> Markup:
    """Return the duration of each batch by phase, as stacked bars, the newest to the right."""
    longest = max((batch.seconds for batch in batches), default=0.0) or 1.0
    width = _WIDTH / max(len(batches), 30)
    bars = [
        element("g", *_bar(batch, index * width, max(1.0, width - _GAP), longest), element("title", _tooltip(batch)))
        for index, batch in enumerate(batches)
    ]
    scale = element("span", f"maximum {longest:.2f} s", class_="axis")
    legend = element("p", *(element("span", name, class_=f"key {name}") for name in PHASES), scale, class_="legend")
    drawing = element(
        "svg",
        *bars,
        viewBox=f"0 0 {_WIDTH} {_HEIGHT}",
        class_="chart",
        role="img",
        preserveAspectRatio="none",
        aria_label=f"Duration of the last {len(batches)} batches by phase, at most {longest:.2f} seconds",
    )
    return joined(drawing, legend)


def _bar(batch: BatchTimes, x: float, width: float, longest: float) -> list[Markup]:
    parts: list[Markup] = []
    top = float(_HEIGHT)
    for phase in PHASES:
        height = getattr(batch.phases, phase) / longest * _HEIGHT
        if height > 0.2:
            top -= height
            parts.append(
                element(
                    "rect",
                    x=f"{x:.1f}",
                    y=f"{max(0.0, top):.1f}",
                    width=f"{width:.1f}",
                    height=f"{height:.1f}",
                    class_=phase,
                )
            )
    return parts


def _tooltip(batch: BatchTimes) -> str:
    phases = ", ".join(f"{name} {getattr(batch.phases, name) * 1000:.0f} ms" for name in PHASES)
    return f"batch {batch.number}: {batch.records_in:,} in, {batch.records_out:,} out, {batch.seconds:.3f} s ({phases})"


def sparkline(values: Sequence[Number], label: str) -> Markup:
    """Return a line chart without axes, which fills its width."""
    highest = max((value for value in values if value is not None), default=0.0) or 1.0
    return element(
        "svg",
        *_lines(values, highest, 28, "series-1"),
        viewBox=f"0 -2 {_WIDTH} 32",
        class_="spark",
        role="img",
        aria_label=label,
        preserveAspectRatio="none",
    )


def trend(
    title: str,
    points: Sequence[HistoryPoint],
    series: Sequence[Series],
    text: Callable[[float], str],
    axis: Callable[[float], float],
) -> Markup:
    """Return values over time; ``text`` formats a value with its unit, ``axis`` returns the end of the axis.

    The values of a point are shown above the chart while the pointer is over it.
    """
    values = [value for line in series for value in line.values if value is not None]
    top = axis(max(values, default=0.0))
    lines = [
        part
        for number, line in enumerate(series, 1)
        for part in _lines(line.values, top, _TREND_HEIGHT, f"series-{number}")
    ]
    grid = [element("line", x1=0, x2=_WIDTH, y1=y, y2=y) for y in (0, _TREND_HEIGHT / 2, _TREND_HEIGHT)]
    plot = element(
        "svg",
        element("g", *grid, class_="grid"),
        *lines,
        element("g", *_hits(points, series, text)),
        viewBox=f"0 0 {_WIDTH} {_TREND_HEIGHT}",
        class_="plot",
        role="img",
        preserveAspectRatio="none",
        aria_label=f"{title}: {_readout(len(points) - 1, series, text) or 'no data'}",
    )
    scale = element("p", *(element("span", text(value)) for value in (top, top / 2, 0.0)), class_="scale")
    return element(
        "figure",
        element("figcaption", element("h3", title), _legend(series, text)),
        element("div", scale, plot, class_="plot-box"),
        _time_axis(points),
        class_="trend",
    )


def _legend(series: Sequence[Series], text: Callable[[float], str]) -> Markup:
    """Return the last known value of each line, which the script replaces by those under the pointer."""
    names = [
        element("span", line.name, " ", element("b", _last_text(line, text)), class_=f"key series-{number}")
        for number, line in enumerate(series, 1)
    ]
    return element("p", *names, element("time"), class_="readout")


def _last_text(line: Series, text: Callable[[float], str]) -> str:
    last = next((value for value in reversed(line.values) if value is not None), None)
    return "-" if last is None else text(last)


def _lines(values: Sequence[Number], highest: float, height: float, kind: str) -> list[Markup]:
    """Return a line and the area below it; gaps split the line, and a single point becomes a short dash."""
    step = _WIDTH / max(1, len(values) - 1)
    runs: list[list[tuple[float, float]]] = [[]]
    for index, value in enumerate(values):
        if value is None:
            runs.append([])
        else:
            runs[-1].append((index * step, height - min(1.0, value / highest) * height))
    parts: list[Markup] = []
    for run in filter(None, runs):
        points = (
            run if len(run) > 1 else [(max(0.0, run[0][0] - step / 2), run[0][1]), (run[0][0] + step / 2, run[0][1])]
        )
        line = " ".join(f"{x:.0f},{y:.1f}" for x, y in points)
        area = f"{points[0][0]:.0f},{height:.0f} {line} {points[-1][0]:.0f},{height:.0f}"
        parts += [
            element("polygon", points=area, class_=f"area {kind}"),
            element("polyline", points=line, class_=kind),
        ]
    return parts


def _hits(points: Sequence[HistoryPoint], series: Sequence[Series], text: Callable[[float], str]) -> list[Markup]:
    """Return an invisible strip for each point, with its time and its values."""
    step = _WIDTH / max(1, len(points) - 1)
    return [
        element(
            "rect",
            x=f"{index * step - step / 2:.1f}",
            y=0,
            width=f"{step:.1f}",
            height=_TREND_HEIGHT,
            data_values=_readout(index, series, text),
            data_time=_clock(point.start),
        )
        for index, point in enumerate(points)
    ]


def _readout(index: int, series: Sequence[Series], text: Callable[[float], str]) -> str:
    values = [line.values[index] if 0 <= index < len(line.values) else None for line in series]
    return "|".join("-" if value is None else text(value) for value in values)


def _time_axis(points: Sequence[HistoryPoint]) -> Content:
    if not points:
        return None
    marks = [points[0].start, points[len(points) // 2].start, points[-1].start]
    last = element("span", f"{_clock(marks[-1])} UTC")
    return element("p", *(element("span", _clock(mark)) for mark in marks[:-1]), last, class_="time-axis")


def _clock(timestamp: int) -> str:
    return datetime.fromtimestamp(timestamp / 1000, UTC).strftime("%H:%M")


def quantity_axis(value: float) -> float:
    """Return the end of an axis for a quantity: 2, 5 or 10 times a power of ten.

    >>> [quantity_axis(value) for value in (0, 0.3, 7, 120, 1622)]
    [2.0, 2.0, 10.0, 200.0, 2000.0]
    """
    value = max(value, 1.01)
    power = 10.0 ** math.floor(math.log10(value))
    return next(factor * power for factor in (1.0, 2.0, 5.0, 10.0) if value <= factor * power)


def bytes_axis(value: float) -> float:
    """Return the end of an axis for bytes."""
    return quantity_axis(max(value, 1001))


def duration_axis(milliseconds: float) -> float:
    """Return the end of an axis for durations, a round number of milliseconds, seconds, minutes or hours.

    >>> [duration_axis(value) for value in (0, 130, 12_000, 290_000)]
    [10.0, 200.0, 20000.0, 600000.0]
    """
    return next((float(end) for end in _DURATIONS if milliseconds <= end), quantity_axis(milliseconds))
