"""Overview: every app with its state, speed, latency, lag and troubles."""

from __future__ import annotations

from millstream.serve.api.apps import AppDetail, AppParams, AppSummary, PlanChange, get_app
from millstream.serve.html import Content, Markup, element, joined
from millstream.serve.pages.charts import spark, timeline
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
    apps = site.place.apps()
    if not apps:
        return (_nothing(),)
    return tuple(_app(get_app(site, AppParams(app=app))) for app in apps)


def _nothing() -> Markup:
    return empty(
        "No app has run here yet",
        element("p", "An app is a Python file with a topology in it. Run one, and it appears here while it works:"),
        command("millstream run word_count.py"),
        element("p", "To see what this page is about, run the demo, which makes its own data:"),
        command("./dev demo"),
    )


def _app(detail: AppDetail) -> Markup:
    one = detail.summary
    head = element(
        "div",
        element("h2", link(one.app, "topology", app=one.app)),
        state_badge(one.state),
        element("p", one.why, class_="why"),
        class_="app-head",
    )
    body = joined(head, _figures(one), _history(detail), _troubles(detail))
    return element("section", element("div", body, id=f"app-{one.app}", data_live=True), class_="card wide app")


def _figures(one: AppSummary) -> Markup:
    latency: Content = None
    if one.latency is not None:
        latency = joined(duration(one.latency.p50), element("small", "p99 ", duration(one.latency.p99)))
    return element(
        "div",
        _figure("Records", rate(one.rate), "read per second, over the last ten seconds"),
        _figure(
            "Latency", NOTHING if latency is None else latency, "from a record's timestamp to the end of its batch"
        ),
        _figure("Lag", number(one.lag), "records that wait to be read"),
        _figure(
            "Batch",
            joined("#", number(one.batch)),
            joined(duration(one.seconds * 1000), " each, last ", ago(one.ended_at)),
        ),
        _figure("Late", number(one.late), "came after their window had closed", bad=one.late > 0),
        _figure("Dead letters", number(one.dead_letters), "could not be processed", bad=one.dead_letters > 0),
        class_="figures",
    )


def _figure(name: str, value: Content, told: Content, bad: bool = False) -> Markup:
    return element(
        "div",
        element("h3", name),
        element("p", value, class_="figure bad" if bad else "figure"),
        element("p", told, class_="told"),
    )


def _history(detail: AppDetail) -> Markup:
    if not detail.batches:
        return empty(
            "No batch is done yet",
            element("p", "A batch runs as soon as there are records to read. Send some:"),
            command("echo hello | millstream produce TOPIC"),
        )
    minutes = detail.minutes[-30:]
    return element(
        "div",
        element("div", element("h3", "Time of the last batches, by phase"), timeline(detail.batches)),
        element(
            "div",
            element("h3", "Records per minute"),
            spark([one.records_in for one in minutes] or [], "records per minute over the last half hour"),
            _extremes([one.records_in for one in minutes]),
            element("h3", "Deployed"),
            _deploy(detail.deploy),
        ),
        class_="history",
    )


def _extremes(counts: list[int]) -> Content:
    """Say what the line of the last half hour means in numbers."""
    if len(counts) < 2:
        return None
    return element("p", "at most ", number(max(counts)), ", this minute ", number(counts[-1]), class_="told")


def _deploy(change: PlanChange | None) -> Content:
    if change is None:
        return element("p", "not known", class_="none")
    when = element("p", ago(change.at), class_="told")
    if change.is_first:
        return joined(when, element("p", "The first plan of this app."))
    rows = [
        *(element("li", badge("new", "good"), " ", element("code", name)) for name in change.added),
        *(element("li", badge("gone", "bad"), " ", element("code", name)) for name in change.removed),
        *(element("li", badge("changed", "busy"), " ", element("code", name)) for name in change.changed),
    ]
    return joined(when, element("ul", *rows, class_="changes"))


def _troubles(detail: AppDetail) -> Content:
    if not detail.dropped:
        return None
    pairs = [(name, number(count)) for name, count in sorted(detail.dropped.items())]
    return element(
        "div",
        element("h3", "Dropped, by node and reason"),
        facts(*pairs),
        element("p", link("Look at them", "letters", app=detail.summary.app)),
    )
