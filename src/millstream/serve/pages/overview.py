"""Overview: every app with its state, throughput, latency, lag and dropped records."""

from __future__ import annotations

from millstream.serve.api.apps import AppDetail, AppParams, AppSummary, PlanChange, get_app
from millstream.serve.html import Content, Markup, element, joined
from millstream.serve.pages.charts import sparkline, timeline
from millstream.serve.pages.parts import (
    NOTHING,
    ago,
    badge,
    command,
    duration,
    empty,
    facts,
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
        element("p", app.why, class_="why"),
        class_="app-head",
    )
    body = joined(head, _metrics(app), _history(detail), _dropped(detail))
    return element("section", element("div", body, id=f"app-{app.app}", data_live=True), class_="card wide app")


def _metrics(app: AppSummary) -> Markup:
    latency: Content = NOTHING
    if app.latency is not None:
        latency = joined(duration(app.latency.p50), element("small", "p99 ", duration(app.latency.p99)))
    return element(
        "div",
        _metric("Records", rate(app.rate), "read per second, over the last ten seconds"),
        _metric("Latency", latency, "from a record's timestamp to the end of its batch"),
        _metric("Lag", number(app.lag), "records not yet read"),
        _metric(
            "Batch",
            joined("#", number(app.batch)),
            joined(duration(app.seconds * 1000), " each, last ", ago(app.ended_at)),
        ),
        _metric("Late", number(app.late), "arrived after their window had closed", bad=app.late > 0),
        _metric("Dead letters", number(app.dead_letters), "could not be processed", bad=app.dead_letters > 0),
        class_="metrics",
    )


def _metric(name: str, value: Content, description: Content, bad: bool = False) -> Markup:
    return element(
        "div",
        element("h3", name),
        element("p", value, class_="metric bad" if bad else "metric"),
        element("p", description, class_="note"),
    )


def _history(detail: AppDetail) -> Markup:
    if not detail.batches:
        return empty(
            "No batch has completed yet",
            element("p", "A batch runs as soon as there are records to read. Write one:"),
            command("echo hello | millstream produce TOPIC"),
        )
    minutes = detail.minutes[-30:]
    return element(
        "div",
        element("div", element("h3", "Duration of the last batches, by phase"), timeline(detail.batches)),
        element(
            "div",
            element("h3", "Records per minute"),
            sparkline([minute.records_in for minute in minutes], "records per minute over the last half hour"),
            _extremes([minute.records_in for minute in minutes]),
            element("h3", "Last deploy"),
            _deploy(detail.deploy),
        ),
        class_="history",
    )


def _extremes(counts: list[int]) -> Content:
    """Return the highest and the last number of the chart."""
    if len(counts) < 2:
        return None
    return element("p", "maximum ", number(max(counts)), ", this minute ", number(counts[-1]), class_="note")


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
    return element(
        "div",
        element("h3", "Dropped records, by node and reason"),
        facts(*pairs),
        element("p", link("Show details", "dead-letters", app=detail.summary.app)),
    )
