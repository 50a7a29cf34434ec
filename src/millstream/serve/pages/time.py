"""Time: event time of sources, stream time of tasks, open windows, and why a record was late."""

from __future__ import annotations

import time as clock

from millstream.errors import MillstreamError
from millstream.serve.api.apps import AppParams
from millstream.serve.api.timing import (
    AppTime,
    LateAnswer,
    LateParams,
    OpenWindows,
    SourceTime,
    StageTime,
    explain_late,
    get_time,
)
from millstream.serve.html import Content, Markup, element, joined
from millstream.serve.pages.parts import (
    NOTHING,
    badge,
    card,
    choice,
    command,
    duration,
    empty,
    field,
    link,
    moment,
    number,
    table,
)
from millstream.serve.site import Site


def time_page(site: Site, app: str, table: str | None, key: str | None, when: str | None) -> tuple[Content, ...]:
    """Return the content of the page for one app."""
    found = get_time(site, AppParams(app=app))
    return (
        card("Sources", _sources(found.sources), live="sources", wide=True),
        card("Stream time of each task", _stages(found.stages), live="stages", wide=True),
        card("Windows", _windows(found.windows), live="windows", wide=True),
        card("Why was this record late?", _question(site, found, table, key, when), wide=True),
    )


def _sources(sources: list[SourceTime]) -> Content:
    if not sources:
        return empty("Nothing was read yet", element("p", "Sources appear with the first batch."))
    rows = (
        (
            link(one.topic, "topics", one.topic),
            number(one.partition),
            moment(one.read_until),
            moment(one.newest),
            number(one.end - one.position),
            _behind(one.read_until),
        )
        for one in sources
    )
    heads = ("Topic", "Partition", "Read until", "Newest", "Lag", "Behind the clock")
    told = element("p", "Timestamps as the records carry them in the log, in UTC.", class_="told")
    return joined(table(heads, rows, numeric=(1, 4, 5)), told)


def _behind(timestamp: int | None) -> Content:
    return NOTHING if timestamp is None else duration(max(0, clock.time_ns() // 1_000_000 - timestamp))


def _stages(stages: list[StageTime]) -> Content:
    known = [one for one in stages if one.stream_times]
    if not known:
        return empty(
            "No task has seen a record yet", element("p", "Stream time is the newest event time that a task has seen.")
        )
    rows = [
        (
            element("code", f"{one.stage}/{partition}"),
            moment(at),
            _bar(at, one.stream_times),
            badge("holds its stage back", "busy") if partition == one.held_back_by else NOTHING,
        )
        for one in known
        for partition, at in sorted(one.stream_times.items())
    ]
    told = element(
        "p",
        "Stream time is the newest event time that a task has seen. It closes windows, and only records move it: "
        "a partition without records stands still.",
        class_="told",
    )
    return joined(table(("Task", "Stream time", "Against its stage", ""), rows), told)


def _bar(at: int, times: dict[int, int]) -> Content:
    newest = max(times.values())
    behind = newest - at
    if behind == 0:
        return "newest"
    share = max(0.02, 1 - behind / max(1, newest - min(times.values())))
    bar = element("progress", value=f"{share:.2f}", max=1, aria_label="how far it is")
    return joined(bar, " ", duration(behind), " behind")


def _windows(windows: list[OpenWindows]) -> Content:
    if not windows:
        return empty(
            "No table has windows",
            element("p", "A window collects the records of a span of event time:"),
            command('.windowed_by(tumbling("1 min", grace="30 s")).count(name="per_minute")'),
        )
    rows = (
        (
            element("code", one.table),
            one.kind,
            duration(one.grace),
            joined(number(one.open), "" if one.is_whole else " or more"),
            number(one.kept),
            moment(one.next_close),
        )
        for one in windows
    )
    heads = ("Table", "Windows", "Grace", "Open", "Kept", "Next one closes at")
    return table(heads, rows, numeric=(3, 4))


def _question(site: Site, found: AppTime, table: str | None, key: str | None, when: str | None) -> Content:
    if not found.windows:
        return element("p", "This app has no windows, so nothing can be late.", class_="none")
    names = [(one.table, one.table) for one in found.windows]
    form = element(
        "form",
        element("input", type="hidden", name="app", value=found.app),
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
        answer = explain_late(site, LateParams(app=found.app, table=table, key=key, time=when))
    except MillstreamError as error:
        return joined(
            form, empty("That cannot be answered", element("p", error.message), element("p", error.hint or ""))
        )
    return joined(form, _answer(answer))


def _answer(answer: LateAnswer) -> Markup:
    verdict = badge("it is late", "bad") if answer.is_late else badge("it is in time", "good")
    return element(
        "div", element("p", verdict), element("ul", *(element("li", one) for one in answer.reasons)), class_="answer"
    )
