"""Topics: the list, and one topic with its records and settings, as a stream or as a table."""

from __future__ import annotations

from millstream.foundation.text import json_line
from millstream.foundation.times import format_duration
from millstream.serve.api.records import (
    FoundRecords,
    RecordParams,
    RecordView,
    TableParams,
    TopicAsTable,
    find_records,
    topic_as_table,
)
from millstream.serve.api.topics import GroupLag, TopicDetail, TopicParams, TopicSummary, get_topic, list_topics
from millstream.serve.html import Content, Markup, element, joined
from millstream.serve.pages.parts import (
    NAME_PATTERN,
    action,
    by,
    card,
    choice,
    command,
    copy_button,
    empty,
    facts,
    field,
    identifier,
    link,
    moment,
    more,
    number,
    rate,
    size,
    table,
    url,
    value_of,
)
from millstream.serve.site import Site

_HEADS = ("Topic", "Partitions", "Records", "Rate", "Size", "Retention", "Groups, lag")


def topics_page(site: Site) -> tuple[Content, ...]:
    """Return the content of the list."""
    topics = list_topics(site)
    listed = table(_HEADS, map(_row, topics), numeric=(1, 2, 3, 4), sortable="topics") if topics else _no_topics()
    return card("", listed, live="topics", wide=True), card("", _create(), wide=True)


def _no_topics() -> Markup:
    return empty(
        "There are no topics yet",
        element("p", "A topic is a log of records, split into partitions. An app creates the topics it needs. Or:"),
        command("millstream topics create lines"),
    )


def _row(topic: TopicSummary) -> tuple[Content, ...]:
    return (
        link(topic.topic, "topics", topic.topic),
        by(topic.partitions, number(topic.partitions)),
        by(topic.records, number(topic.records)),
        by(topic.rate, rate(topic.rate)),
        by(topic.bytes, size(topic.bytes)),
        _retention(topic.compact, topic.retention_ms, topic.retention_bytes),
        _groups(topic.groups),
    )


def _retention(compact: bool, retention_ms: int | None, retention_bytes: int | None) -> str:
    limits = [
        "compacted" if compact else "",
        "" if retention_ms is None else format_duration(retention_ms),
        "" if retention_bytes is None else f"{size(retention_bytes)} per partition",
    ]
    return ", ".join(filter(None, limits)) or "unlimited"


def _groups(groups: list[GroupLag]) -> Content:
    if not groups:
        return element("span", "none", class_="none")
    return [
        element("span", link(group.group, "groups", group.group), " ", element("b", number(group.lag)), class_="lag")
        for group in groups
    ]


def _create() -> Markup:
    return more(
        "Create a topic",
        action(
            "/api/topics",
            field("Name", "topic", required=True, maxlength=200, pattern=NAME_PATTERN),
            field("Partitions", "partitions", "number", value=4, min=1, max=1000, data_type="number"),
            field("Retention (ms)", "retention_ms", "number", min=1, data_type="number", hint="empty: unlimited"),
            choice("Compact", "compact", (("false", "no"), ("true", "yes")), data_type="json"),
            button="Create",
        ),
        id="create",
    )


def topic_page(site: Site, params: RecordParams, view: str) -> tuple[Content, ...]:
    """Return the content of the page of one topic, shown as a stream or as a table."""
    detail = get_topic(site, TopicParams(topic=params.topic))
    tabs = element(
        "p",
        *(
            element("a", name, href=url("topics", params.topic, view=key), aria_current="true" if view == key else None)
            for key, name in (("stream", "As a stream"), ("table", "As a table"))
        ),
        class_="tabs",
    )
    if view == "table":
        shown = card("", tabs, _as_table(topic_as_table(site, TableParams(topic=params.topic))), wide=True)
    else:
        shown = card("", tabs, _search(params, detail), _results(site, params), wide=True)
    return shown, _produce(detail), _settings(detail), _partitions(detail)


def _search(params: RecordParams, detail: TopicDetail) -> Markup:
    numbers = [str(state.partition) for state in detail.partitions]
    partitions = [("", "all"), *zip(numbers, numbers, strict=True)]
    return element(
        "form",
        field("Start", "start", value=params.start, hint="latest, earliest, an offset, 2026-01-31T12:00, 10 min"),
        choice("Partition", "partition", partitions, "" if params.partition is None else str(params.partition)),
        field("Key", "key", value=params.key, hint="exact match"),
        field("Where", "where", value=params.where, hint="value.amount >= 40 and key startswith 'a'"),
        element(
            "div",
            element("button", "Show", type="submit"),
            element("button", "Follow live", type="button", id="tail", data_topic=params.topic, aria_pressed="false"),
        ),
        class_="filter",
        method="get",
    )


def _results(site: Site, params: RecordParams) -> Markup:
    result = find_records(site, params)
    if not result.records and result.next is None:
        return element("div", _no_records(params), id="records")
    return element(
        "div",
        element(
            "table",
            element(
                "thead",
                element("tr", *(element("th", name) for name in ("Position", "Time (UTC)", "Key", "Value", ""))),
            ),
            element("tbody", *map(record_row, result.records), id="record-rows"),
            class_="records",
        ),
        _paging(params, result),
        id="records",
    )


def _no_records(params: RecordParams) -> Markup:
    if params.key or params.where:
        return empty(
            "No matching records",
            element("p", "Try another start or fewer conditions."),
        )
    return empty(
        "No records",
        element("p", "The topic is empty, or this is its end. Write a record below or in a terminal:"),
        command(f"echo hello | millstream produce {params.topic}"),
    )


def record_row(record: RecordView) -> Markup:
    """Return a record as a row, its headers below its value."""
    headers = None
    if record.headers:
        pairs = [(name, value_of(value, 400)) for name, value in record.headers]
        headers = element("details", element("summary", f"{len(pairs)} headers"), facts(*pairs))
    cut = element("p", f"truncated, total size {size(record.bytes)}", class_="note") if record.is_cut else None
    text = record.value if isinstance(record.value, str) else json_line(record.value)
    return element(
        "tr",
        element("td", f"{record.partition}@{record.offset}", data_label="Position"),
        element("td", moment(record.timestamp), data_label="Time (UTC)"),
        element("td", value_of(record.key, 60), data_label="Key"),
        element("td", element("div", value_of(record.value), cut, headers), data_label="Value"),
        element("td", copy_button(text), class_="act"),
    )


def _paging(params: RecordParams, result: FoundRecords) -> Content:
    summary = f"{len(result.records):,} records shown, {result.scanned:,} scanned"
    if result.timed_out:
        summary += "; the search stopped after two seconds"
    next_page = None
    if result.next is not None:
        label = "Older records" if result.direction == "older" else "Newer records"
        query = {"partition": params.partition, "key": params.key, "where": params.where, "direction": result.direction}
        next_page = link(label, "topics", params.topic, start=result.next, **query)
    return element("p", summary, " ", next_page, class_="paging")


def _as_table(topic_table: TopicAsTable) -> Markup:
    if not topic_table.rows:
        reason = "its records have no keys" if topic_table.without_key else "it is empty"
        return empty("No rows", element("p", f"As a table, the topic has no rows: {reason}."))
    note = (
        f"The newest record of each key, from the last {topic_table.scanned:,} records. "
        f"{topic_table.deleted:,} keys are deleted; {topic_table.without_key:,} records without a key are ignored."
    )
    rows = (
        (value_of(row.key, 60), value_of(row.value), moment(row.timestamp), number(row.updates))
        for row in topic_table.rows
    )
    listed = table(("Key", "Newest value", "Time (UTC)", "Records"), rows, numeric=(3,))
    more_rows = None if topic_table.is_complete else element("p", "There are more rows.", class_="note")
    return joined(element("p", note, class_="note"), listed, more_rows)


def _produce(detail: TopicDetail) -> Markup:
    form = action(
        url("api", "topics", detail.topic, "records"),
        field("Key", "key", hint="empty: no key, any partition"),
        element("label", element("span", "Value"), element("textarea", name="value", rows=3), class_="field"),
        choice("Format", "form", (("text", "text"), ("json", "JSON"), ("base64", "bytes (base64)"))),
        button="Write record",
        then="stay",
    )
    return card("Write a record", form)


def _settings(detail: TopicDetail) -> Markup:
    config = detail.config
    change = action(
        url("api", "topics", detail.topic, "settings"),
        field(
            "Partitions",
            "partitions",
            "number",
            min=detail.config.partitions,
            max=1000,
            data_type="number",
            hint="can only be increased",
        ),
        field("Retention (ms)", "retention_ms", "number", min=1, data_type="number"),
        button="Change",
    )
    delete = action(
        url("api", "topics", detail.topic, "delete"),
        field("Name of the topic", "confirm", required=True, autocomplete="off", hint="type it to confirm"),
        button="Delete the topic",
        then="/topics",
        tone="danger",
    )
    return card(
        "Settings",
        facts(
            ("Partitions", number(config.partitions)),
            ("Retention", _retention(config.compact, config.retention_ms, config.retention_bytes)),
            ("Timestamps", "set by the producer" if config.timestamps == "create" else "set by the log"),
            ("Maximum record size", size(config.max_record_bytes)),
        ),
        more("Change settings", change, id="change"),
        more("Delete", element("p", "All records are lost, and apps that read the topic fail."), delete, id="delete"),
    )


def _partitions(detail: TopicDetail) -> Markup:
    rows = (
        (
            by(state.partition, identifier(state.partition)),
            by(state.begin, identifier(state.begin)),
            by(state.end, identifier(state.end)),
            by(state.bytes, size(state.bytes)),
        )
        for state in detail.partitions
    )
    listed = table(
        ("Partition", "First offset", "End offset", "Size"), rows, numeric=(0, 1, 2, 3), sortable="partitions"
    )
    readers = element("p", "Read by: ", _groups(detail.groups))
    return card("Partitions", listed, readers, live="partitions", wide=True)
