"""History: throughput, latency, lag, late records and the size of state over time, from the stored minutes."""

from __future__ import annotations

from collections.abc import Callable

from millstream.batch.history import MINUTES_KEPT
from millstream.serve.api.apps import HistoryParams, get_history
from millstream.serve.history import HistoryPoint
from millstream.serve.html import Content, Markup, element
from millstream.serve.pages.charts import Series, bytes_axis, duration_axis, quantity_axis, trend
from millstream.serve.pages.parts import duration, empty, number, size, url
from millstream.serve.site import Site

RANGES = {60: "1 hour", 6 * 60: "6 hours", MINUTES_KEPT: "24 hours"}


def history_page(site: Site, app: str, minutes: int) -> tuple[Content, ...]:
    """Return the content of the page for one app."""
    points = get_history(site, HistoryParams(app=app, minutes=minutes))
    ranges = element(
        "p",
        *(
            element(
                "a",
                name,
                href=url("history", app=app, minutes=choice),
                aria_current="true" if choice == minutes else None,
            )
            for choice, name in RANGES.items()
        ),
        class_="tabs",
    )
    return ranges, element("section", element("div", _charts(points), id="charts", data_live=True), class_="card wide")


def _charts(points: list[HistoryPoint]) -> Markup:
    if not any(point.batches for point in points):
        return empty(
            "No batches in this time",
            element("p", "The journal keeps the sums of each minute for a day. Choose a longer time, or run the app."),
        )
    return element("div", *(chart(points) for chart in CHARTS.values()), class_="trends")


def _throughput(points: list[HistoryPoint]) -> Markup:
    read = Series("in", [point.records_in / point.seconds for point in points])
    written = Series("out", [point.records_out / point.seconds for point in points])
    return trend("Throughput", points, (read, written), lambda value: f"{number(round(value, 1))}/s", quantity_axis)


def _latency(points: list[HistoryPoint]) -> Markup:
    p50 = Series("p50", [point.latency_p50 for point in points])
    p99 = Series("p99", [point.latency_p99 for point in points])
    return trend("Latency", points, (p50, p99), lambda value: str(duration(value)), duration_axis)


def _lag(points: list[HistoryPoint]) -> Markup:
    return trend("Lag", points, (Series("records", [point.lag for point in points]),), _count, quantity_axis)


def _late(points: list[HistoryPoint]) -> Markup:
    late = Series("late", [point.late / point.seconds * 60 for point in points])
    letters = Series("dead letters", [point.dead_letters / point.seconds * 60 for point in points])
    return trend(
        "Late records and dead letters",
        points,
        (late, letters),
        lambda value: f"{number(round(value, 1))}/min",
        quantity_axis,
    )


def _state(points: list[HistoryPoint]) -> Markup:
    line = Series("on disk", [point.state_bytes for point in points])
    return trend("Size of state", points, (line,), lambda value: str(size(round(value))), bytes_axis)


def _batches(points: list[HistoryPoint]) -> Markup:
    mean = [point.busy_seconds / point.batches * 1000 if point.batches else None for point in points]
    return trend(
        "Duration of batches", points, (Series("mean", mean),), lambda value: str(duration(value)), duration_axis
    )


def _count(value: float) -> str:
    return str(number(round(value, 1)))


CHARTS: dict[str, Callable[[list[HistoryPoint]], Markup]] = {
    "throughput": _throughput,
    "latency": _latency,
    "lag": _lag,
    "late": _late,
    "state": _state,
    "batches": _batches,
}
"""The charts of the page by name."""
