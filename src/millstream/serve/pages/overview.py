"""Overview: every app with its state, throughput, latency, lag and dropped records."""

from __future__ import annotations

from collections.abc import Sequence

from millstream.serve.api.apps import AppDetail, AppParams, AppSummary, PlanChange, get_app
from millstream.serve.history import HistoryPoint
from millstream.serve.html import Content, Markup, element, joined
from millstream.serve.pages.charts import sparkline, timeline
from millstream.serve.pages.parts import (
    ago,
    badge,
    command,
    duration,
    empty,
    facts,
    identifier,
    link,
    number,
    rate,
    state_badge,
)
from millstream.serve.site import Site


def overview(site: Site) -> tuple[Content, ...]:
    """Return the content of the page."""
    apps = site.directory.apps()
    if not apps:
        return (_no_apps(),)
    return tuple(_app(get_app(site, AppParams(app=app))) for app in apps)


def _no_apps() -> Markup:
    return empty(
        "No app has run here yet",
        element("p", "An app is a Python file that defines a topology. Run one to see it here:"),
        command("millstream run word_count.py"),
        element("p", "Or run the demo, which generates its own data:"),
        command("./dev demo"),
    )


def _app(detail: AppDetail) -> Markup:
    app = detail.summary
    head = element(
        "div",
        element("h2", link(app.app, "topology", app=app.app)),
        state_badge(app.state),
        element(
            "p", link("Topology", "topology", app=app.app), link("History", "history", app=app.app), class_="links"
        ),
        element("p", app.why, class_="why"),
        element("p", f"State is {app.storage}.", class_="note"),
        class_="app-head",
    )
    body = joined(head, _metrics(app, detail.minutes), _history(detail), _dropped(detail))
    return element("section", element("div", body, id=f"app-{app.app}", data_live=True), class_="card wide app")


def _metrics(app: AppSummary, minutes: Sequence[HistoryPoint]) -> Markup:
    latency, slowest = (None, None) if app.latency is None else (app.latency.p50, app.latency.p99)
    durations = [point.busy_seconds / point.batches if point.batches else None for point in minutes]
    return element(
        "div",
        _metric("Records", rate(app.rate), "read, last 10 s", [point.rate for point in minutes]),
        _metric(
            "Latency",
            duration(latency),
            joined("median; p99 ", duration(slowest)),
            [point.latency_p50 for point in minutes],
        ),
        _metric("Lag", number(app.lag), "records not yet read", [point.lag for point in minutes]),
        _metric("Batch duration", duration(app.seconds * 1000), _last_batch(app), durations),
        _metric("Late", number(app.late), "window had closed", [point.late for point in minutes], bad=app.late > 0),
        _metric(
            "Dead letters",
            number(app.dead_letters),
            "not processed",
            [point.dead_letters for point in minutes],
            bad=app.dead_letters > 0,
        ),
        class_="metrics",
    )


def _last_batch(app: AppSummary) -> Content:
    return joined("#", identifier(app.batch), ", ", ago(app.ended_at))


def _metric(name: str, value: Content, description: Content, hour: Sequence[float | None], bad: bool = False) -> Markup:
    """Return a metric with its chart of the last hour."""
    return element(
        "div",
        element("h3", name),
        element("p", value, class_="metric bad" if bad else "metric"),
        element("p", description, class_="note"),
        sparkline(hour, f"{name} over the last hour") if any(value is not None for value in hour) else None,
    )


def _history(detail: AppDetail) -> Markup:
    if not detail.batches:
        return empty(
            "No batch has completed yet",
            element("p", "A batch runs as soon as there are records to read. Write one:"),
            command("echo hello | millstream produce TOPIC"),
        )
    return element(
        "div",
        element(
            "div",
            element("h3", f"Duration of the last {len(detail.batches)} batches, by phase"),
            timeline(detail.batches),
        ),
        element("div", element("h3", "Last deploy"), _deploy(detail.deploy)),
        class_="history",
    )


def _deploy(change: PlanChange | None) -> Content:
    if change is None:
        return element("p", "unknown", class_="none")
    when = element("p", ago(change.at), class_="note")
    if change.is_first:
        return joined(when, element("p", "This is the first plan of the app."))
    rows = [
        *(element("li", badge("new", "good"), " ", element("code", name)) for name in change.added),
        *(element("li", badge("removed", "bad"), " ", element("code", name)) for name in change.removed),
        *(element("li", badge("changed", "busy"), " ", element("code", name)) for name in change.changed),
    ]
    return joined(when, element("ul", *rows, class_="changes"))


def _dropped(detail: AppDetail) -> Content:
    if not detail.dropped:
        return None
    pairs = [(name, number(count)) for name, count in sorted(detail.dropped.items())]
    head = element("h3", "Dropped records, by node and reason")
    details = link("Show details", "dead-letters", app=detail.summary.app)
    return element("div", element("div", head, details, class_="section-head"), facts(*pairs), class_="dropped")
