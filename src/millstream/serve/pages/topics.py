"""Topics: the list, and one topic with its records, its settings and itself as a table."""

from __future__ import annotations

from millstream.foundation.text import json_line
from millstream.foundation.times import format_duration
from millstream.serve.api.records import (
    FoundRecords,
    RecordParams,
    ShownRecord,
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
    card,
    choice,
    command,
    copy_button,
    empty,
    facts,
    field,
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

_HEADS = ("Topic", "Partitions", "Records", "Rate", "Size", "Kept", "Groups and their lag")


def topics_page(site: Site) -> tuple[Content, ...]:
    """Return the content of the list."""
    found = list_topics(site)
    listed = table(_HEADS, (_row(one) for one in found), numeric=(1, 2, 3, 4)) if found else _nothing()
    return card("", listed, live="topics", wide=True), card("", _create(), wide=True)


def _nothing() -> Markup:
    return empty(
        "There are no topics yet",
        element("p", "A topic is a log of records, split into partitions. An app makes those it needs; or make one:"),
        command("millstream topics create lines"),
    )


def _row(one: TopicSummary) -> tuple[Content, ...]:
    return (
        link(one.topic, "topics", one.topic),
        number(one.partitions),
        number(one.records),
        rate(one.rate),
        size(one.bytes),
        _kept(one.compact, one.retention_ms, one.retention_bytes),
        _groups(one.groups),
    )


def _kept(compact: bool, retention_ms: int | None, retention_bytes: int | None) -> str:
    limits = [
        "last of each key" if compact else "",
        "" if retention_ms is None else format_duration(retention_ms),
        "" if retention_bytes is None else f"{size(retention_bytes)} per partition",
    ]
    return ", ".join(filter(None, limits)) or "all"


def _groups(groups: list[GroupLag]) -> Content:
    if not groups:
        return element("span", "nobody reads it", class_="none")
    return [
        element("span", link(one.group, "groups", one.group), " ", element("b", number(one.lag)), class_="lag")
        for one in groups
    ]


def _create() -> Markup:
    return more(
        "Create a topic",
        action(
            "/api/topics",
            field("Name", "topic", required=True, maxlength=200, pattern=NAME_PATTERN),
            field("Partitions", "partitions", "number", value=4, min=1, max=1000, data_type="number"),
            field("Keep for (ms)", "retention_ms", "number", min=1, data_type="number", hint="empty: for ever"),
            choice("Compact", "compact", (("false", "no"), ("true", "last of each key")), data_type="json"),
            button="Create",
        ),
        id="create",
    )


def topic_page(site: Site, params: RecordParams, view: str) -> tuple[Content, ...]:
    """Return the content of the page of one topic: its records, or itself as a table."""
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
        shown = card("", tabs, _search(params, detail), _found(site, params), wide=True)
    return shown, _produce(detail), _settings(detail), _partitions(detail)


def _search(params: RecordParams, detail: TopicDetail) -> Markup:
    partitions = [("", "all"), *((str(one.partition), str(one.partition)) for one in detail.partitions)]
    return element(
        "form",
        field("Start", "start", value=params.start, hint="latest, earliest, an offset, 2026-01-31T12:00, 10 min"),
        choice("Partition", "partition", partitions, "" if params.partition is None else str(params.partition)),
        field("Key", "key", value=params.key, hint="exactly this"),
        field("Where", "where", value=params.where, hint="value.amount >= 40 and key startswith 'a'"),
        element(
            "div",
            element("button", "Show", type="submit"),
            element("button", "Follow live", type="button", id="tail", data_topic=params.topic, aria_pressed="false"),
        ),
        class_="filter",
        method="get",
    )


def _found(site: Site, params: RecordParams) -> Markup:
    found = find_records(site, params)
    if not found.records and found.next is None:
        return element("div", _no_records(params), id="records")
    return element(
        "div",
        element(
            "table",
            element("thead", element("tr", *(element("th", name) for name in ("Place", "Time", "Key", "Value", "")))),
            element("tbody", *(record_row(one) for one in found.records), id="record-rows"),
            class_="records",
        ),
        _paging(params, found),
        id="records",
    )


def _no_records(params: RecordParams) -> Markup:
    if params.key or params.where:
        return empty(
            "No such record", element("p", "Nothing from there on fits. Try another start, or fewer conditions.")
        )
    return empty(
        "Nothing to show from there",
        element("p", "The topic is empty, or this is its end. Write a record below, or from a terminal:"),
        command(f"echo hello | millstream produce {params.topic}"),
    )


def record_row(one: ShownRecord) -> Markup:
    """Return a record as a row, its headers below its value."""
    headers = None
    if one.headers:
        pairs = [(name, value_of(value, 400)) for name, value in one.headers]
        headers = element("details", element("summary", f"{len(pairs)} headers"), facts(*pairs))
    cut = element("p", f"cut: it has {size(one.bytes)}", class_="told") if one.is_cut else None
    text = one.value if isinstance(one.value, str) else None
    return element(
        "tr",
        element("td", f"{one.partition}@{one.offset}", data_label="Place"),
        element("td", moment(one.timestamp), data_label="Time"),
        element("td", value_of(one.key, 60), data_label="Key"),
        element("td", element("div", value_of(one.value), cut, headers), data_label="Value"),
        element("td", copy_button(text if text is not None else json_line(one.value)), class_="act"),
    )


def _paging(params: RecordParams, found: FoundRecords) -> Content:
    told = f"{len(found.records):,} shown of {found.looked_at:,} looked at"
    if found.is_out_of_time:
        told += "; the search was ended after two seconds"
    go_on = None
    if found.next is not None:
        word = "Older" if found.direction == "older" else "Newer"
        query = {"partition": params.partition, "key": params.key, "where": params.where, "direction": found.direction}
        go_on = link(f"{word} records", "topics", params.topic, start=found.next, **query)
    return element("p", told, " ", go_on, class_="paging")


def _as_table(found: TopicAsTable) -> Markup:
    if not found.rows:
        reason = "its records have no keys" if found.without_key else "it is empty"
        return empty("No rows", element("p", f"Read as a table, the topic has no rows: {reason}."))
    told = (
        f"The newest record of each key, from the last {found.looked_at:,} records: as a table, "
        f"{found.deleted:,} keys are deleted and {found.without_key:,} records without key count for nothing."
    )
    rows = (
        (value_of(one.key, 60), value_of(one.value), moment(one.timestamp), number(one.updates)) for one in found.rows
    )
    listed = table(("Key", "Newest value", "Time", "Records"), rows, numeric=(3,))
    cut = None if found.is_whole else element("p", "There are more rows than these.", class_="told")
    return joined(element("p", told, class_="told"), listed, cut)


def _produce(detail: TopicDetail) -> Markup:
    form = action(
        url("api", "topics", detail.topic, "records"),
        field("Key", "key", hint="empty: none, to any partition"),
        element("label", element("span", "Value"), element("textarea", name="value", rows=3), class_="field"),
        choice("Written as", "form", (("text", "text"), ("json", "JSON"), ("base64", "bytes (base64)"))),
        button="Write the record",
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
            hint="they can only grow",
        ),
        field("Keep for (ms)", "retention_ms", "number", min=1, data_type="number"),
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
            ("Kept", _kept(config.compact, config.retention_ms, config.retention_bytes)),
            ("Timestamps", "of the producer" if config.timestamps == "create" else "of the log"),
            ("Largest record", size(config.max_record_bytes)),
        ),
        more("Change settings", change, id="change"),
        more("Delete", element("p", "All records are lost, and apps that read it fail."), delete, id="delete"),
    )


def _partitions(detail: TopicDetail) -> Markup:
    rows = ((number(one.partition), number(one.begin), number(one.end), size(one.bytes)) for one in detail.partitions)
    listed = table(("Partition", "First offset", "End", "Size"), rows, numeric=(0, 1, 2, 3))
    readers = element("p", "Read by: ", _groups(detail.groups))
    return card("Partitions", listed, readers, live="partitions")
