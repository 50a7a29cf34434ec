"""Small charts as SVG; every colour is a class of the style sheet, since styles inside of pages are not allowed."""

from __future__ import annotations

from collections.abc import Sequence

from millstream.serve.api.apps import BatchTimes
from millstream.serve.html import Markup, element, joined

PHASES = ("plan", "run", "publish", "done")
_WIDTH, _HEIGHT, _GAP = 720, 120, 2


def timeline(batches: Sequence[BatchTimes]) -> Markup:
    """Return the time of each batch by phase, as stacked bars, the newest to the right."""
    longest = max((one.seconds for one in batches), default=0.0) or 1.0
    width = _WIDTH / max(len(batches), 30)
    bars = [
        element("g", *_bar(one, at * width, max(1.0, width - _GAP), longest), element("title", _told(one)))
        for at, one in enumerate(batches)
    ]
    told = element("span", f"the highest took {longest:.2f} s", class_="axis")
    legend = element("p", *(element("span", name, class_=f"key {name}") for name in PHASES), told, class_="legend")
    drawing = element(
        "svg",
        *bars,
        viewBox=f"0 0 {_WIDTH} {_HEIGHT}",
        class_="chart",
        role="img",
        preserveAspectRatio="none",
        aria_label=f"Time of the last {len(batches)} batches by phase; the longest took {longest:.2f} seconds",
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


def _told(batch: BatchTimes) -> str:
    phases = ", ".join(f"{name} {getattr(batch.phases, name) * 1000:.0f} ms" for name in PHASES)
    return f"batch {batch.number}: {batch.records_in:,} in, {batch.records_out:,} out, {batch.seconds:.3f} s ({phases})"


def spark(values: Sequence[float], told: str) -> Markup:
    """Return a line of numbers without axes."""
    if len(values) < 2:
        return element("span", "not enough to draw yet", class_="none")
    most = max(values) or 1.0
    step = 200 / (len(values) - 1)
    points = " ".join(f"{at * step:.1f},{38 - value / most * 34:.1f}" for at, value in enumerate(values))
    line = element("polyline", points=points)
    return element(
        "svg", line, viewBox="0 0 200 40", class_="spark", role="img", aria_label=told, preserveAspectRatio="none"
    )
