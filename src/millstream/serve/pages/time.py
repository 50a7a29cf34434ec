"""Time: event time of sources, stream time of tasks, open windows, and why a record is late."""

from __future__ import annotations

import time as clock

from millstream.errors import MillstreamError
from millstream.serve.api.apps import AppParams
from millstream.serve.api.timing import (
    AppTime,
    LateExplanation,
    LateParams,
    OpenWindows,
    SourceTime,
    StageTime,
    explain_late,
    get_time,
)
from millstream.serve.html import Content, Markup, element, joined
from millstream.serve.pages.parts import (
    badge,
    by,
    card,
    choice,
    command,
    duration,
    empty,
    field,
    identifier,
    link,
    moment,
    number,
    table,
)
from millstream.serve.site import Site


def time_page(site: Site, app: str, table: str | None, key: str | None, when: str | None) -> tuple[Content, ...]:
    """Return the content of the page for one app."""
    app_time = get_time(site, AppParams(app=app))
    return (
        card("Sources", _sources(app_time.sources, site.directory.broker_problem()), live="sources", wide=True),
        card("Stream time of each task", _stages(app_time.stages), live="stages", wide=True),
        card("Windows", _windows(app_time.windows), live="windows", wide=True),
        card("Why is a record late?", _question(site, app_time, table, key, when), wide=True),
    )


def _sources(sources: list[SourceTime], problem: MillstreamError | None) -> Content:
    if not sources and problem is not None:
        return empty("The sources are not known now", element("p", problem.message))
    if not sources:
        return empty("No records were read yet", element("p", "Sources appear with the first batch."))
    rows = (
        (
            link(source.topic, "topics", source.topic),
            by(source.partition, identifier(source.partition)),
            by(source.read_until, moment(source.read_until)),
            by(source.newest, moment(source.newest)),
            by(source.end - source.position, number(source.end - source.position)),
            _behind(source.read_until),
        )
        for source in sources
    )
    heads = ("Topic", "Partition", "Read until (UTC)", "Newest (UTC)", "Lag", "Behind wall clock")
    note = element("p", "Timestamps as the topics store them.", class_="note")
    return joined(table(heads, rows, numeric=(1, 4, 5), sortable="sources"), note)


def _behind(timestamp: int | None) -> Content:
    behind = None if timestamp is None else max(0, clock.time_ns() // 1_000_000 - timestamp)
    return by(behind, duration(behind))


def _stages(stages: list[StageTime]) -> Content:
    stages = [stage for stage in stages if stage.stream_times]
    if not stages:
        return empty(
            "No task has processed a record yet",
            element("p", "Stream time is the highest event time that a task has processed."),
        )
    rows = [
        (
            element("code", f"{stage.stage}/{partition}"),
            by(stream_time, moment(stream_time)),
            _bar(stream_time, stage.stream_times),
            badge("holds the stage back", "busy") if partition == stage.held_back_by else None,
        )
        for stage in stages
        for partition, stream_time in sorted(stage.stream_times.items())
    ]
    note = element(
        "p",
        "Stream time is the highest event time that a task has processed. It closes windows, and only records advance "
        "it: without new records, it stands still.",
        class_="note",
    )
    return joined(table(("Task", "Stream time (UTC)", "Relative to stage", ""), rows, sortable="tasks"), note)


def _bar(stream_time: int, stream_times: dict[int, int]) -> Content:
    newest = max(stream_times.values())
    behind = newest - stream_time
    if behind == 0:
        return "newest"
    share = max(0.02, 1 - behind / max(1, newest - min(stream_times.values())))
    bar = element("progress", value=f"{share:.2f}", max=1, aria_label="stream time relative to the stage")
    return element("span", bar, " ", duration(behind), " behind", class_="one-line")


def _windows(windows: list[OpenWindows]) -> Content:
    if not windows:
        return empty(
            "No windowed tables",
            element("p", "A window groups the records of a range of event time:"),
            command('.windowed_by(tumbling("1 min", grace="30 s")).count(name="per_minute")'),
        )
    rows = (
        (
            element("code", table_windows.table),
            table_windows.kind,
            duration(table_windows.grace),
            by(table_windows.open, joined(number(table_windows.open), "" if table_windows.is_complete else " or more")),
            by(table_windows.kept, number(table_windows.kept)),
            moment(table_windows.next_close),
        )
        for table_windows in windows
    )
    heads = ("Table", "Windows", "Grace", "Open", "Stored", "Next one closes at (UTC)")
    return table(heads, rows, numeric=(3, 4), sortable="windows")


def _question(site: Site, app_time: AppTime, table: str | None, key: str | None, when: str | None) -> Content:
    if not app_time.windows:
        return element("p", "This app has no windows, so nothing can be late.", class_="none")
    names = [(windows.table, windows.table) for windows in app_time.windows]
    form = element(
        "form",
        element("input", type="hidden", name="app", value=app_time.app),
        choice("Table", "table", names, table or ""),
        field("Key", "key", value=key, required=True, hint="as in the table"),
        field("Timestamp", "time", value=when, required=True, hint="milliseconds, or 2026-01-31T12:00:00Z"),
        element("div", element("button", "Explain", type="submit")),
        class_="filter",
        method="get",
    )
    if not (table and key and when):
        return form
    try:
        explanation = explain_late(site, LateParams(app=app_time.app, table=table, key=key, time=when))
    except MillstreamError as error:
        return joined(form, empty("Error", element("p", error.message), element("p", error.hint or "")))
    return joined(form, _explanation(explanation))


def _explanation(explanation: LateExplanation) -> Markup:
    verdict = badge("late", "bad") if explanation.is_late else badge("on time", "good")
    reasons = (element("li", reason) for reason in explanation.reasons)
    return element("div", element("p", verdict), element("ul", *reasons), class_="answer")
