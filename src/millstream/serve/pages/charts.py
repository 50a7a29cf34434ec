"""Small charts as SVG; every colour is a class of the style sheet, since the policy forbids inline styles."""

from __future__ import annotations

from collections.abc import Sequence

from millstream.serve.api.apps import BatchTimes
from millstream.serve.html import Markup, element, joined

PHASES = ("plan", "run", "publish", "done")
_WIDTH, _HEIGHT, _GAP = 720, 120, 2


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


def sparkline(values: Sequence[float], label: str) -> Markup:
    """Return a line chart without axes."""
    if len(values) < 2:
        return element("span", "not enough data yet", class_="none")
    highest = max(values) or 1.0
    step = 200 / (len(values) - 1)
    points = " ".join(f"{index * step:.1f},{38 - value / highest * 34:.1f}" for index, value in enumerate(values))
    line = element("polyline", points=points)
    return element(
        "svg", line, viewBox="0 0 200 40", class_="spark", role="img", aria_label=label, preserveAspectRatio="none"
    )
