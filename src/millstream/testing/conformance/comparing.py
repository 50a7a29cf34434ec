"""Compare the results of a case with those of Kafka Streams; a difference is a sentence."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any, Protocol

import msgspec

from millstream.foundation.typed_decoding import decode_json
from millstream.records import Headers, Record, Windowed
from millstream.tables.rows import TableReader
from millstream.tables.versions import VersionedTableReader
from millstream.testing.conformance.cases import Case
from millstream.testing.topic import TestTopic

TopicRecords = dict[str, list[list[Any]]]
"""Records by topic, each as [key, value, timestamp, headers]."""

_NOT_COMPARED = "*"


class Outputs(Protocol):
    """The topics and tables to compare after a step: those of a driver, or the part that belongs to a case."""

    @property
    def topics(self) -> list[str]: ...
    def topic(self, name: str) -> TestTopic: ...
    def table(self, name: str) -> TableReader: ...


def new_records(step: dict[str, Any], driver: Outputs, is_text: Callable[[str], bool]) -> TopicRecords:
    """Return the records that a step added to topics, without the record that was piped.

    Source topics and the dead letter topic contain plain text.
    """
    added: TopicRecords = {}
    for topic in driver.topics:
        is_raw = is_text(topic)
        records = driver.topic(topic).read_raw() if is_raw else driver.topic(topic).read()
        piped = 1 if "pipe" in step and step["pipe"][0] == topic else 0
        if records[piped:]:
            added[topic] = [_as_list(record, is_raw=is_raw) for record in records[piped:]]
    return added


def _as_list(record: Record, *, is_raw: bool) -> list[Any]:
    key, value = (_text(record.key), _unquoted(_text(record.value))) if is_raw else (record.key, record.value)
    return [key, value, record.timestamp, _plain_headers(record.headers)]


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode()


def _unquoted(value: str | None) -> str | None:
    """Return the text of a dead letter: a computed value has no declared serde, so behind a shuffle it is JSON."""
    return value if value is None or not value.startswith('"') else decode_json(value, str)


def _plain_headers(headers: Headers) -> list[list[Any]]:
    """Return headers in the format of the cases, without those that only Millstream adds."""
    return [[name, _text(value)] for name, value in headers if not name.startswith("__millstream.")]


def step_difference(
    actual: TopicRecords, expected: list[list[Any]], rules: dict[str, str], *, headers: bool
) -> str | None:
    """Compare the records of a step, in order within a topic unless a rule says otherwise."""
    by_topic: TopicRecords = defaultdict(list)
    for topic, *record in expected:
        by_topic[topic].append(record)
    for topic in sorted({*actual, *by_topic}):
        ours = [record if headers else record[:3] for record in actual.get(topic, [])]
        theirs = [record if headers else record[:3] for record in by_topic.get(topic, [])]
        if rules.get(topic) == "last_per_key":
            ours, theirs = last_per_key(ours), last_per_key(theirs)
        if not _same(ours, theirs):
            return f"topic {topic!r} has {ours}, expected {theirs}"
    return None


def _same(ours: Any, theirs: Any) -> bool:
    """Whether two results are equal; a part that is excluded from the comparison is equal to anything."""
    if isinstance(ours, list) and isinstance(theirs, list):
        return len(ours) == len(theirs) and all(_same(*pair) for pair in zip(ours, theirs, strict=True))
    return bool(theirs == _NOT_COMPARED or ours == theirs)


def last_per_key(records: list[list[Any]]) -> list[list[Any]]:
    """Return the last record of each key, sorted by key."""
    last = {msgspec.json.encode(record[0]): record for record in records}
    return [last[key] for key in sorted(last)]


def store_differences(case: Case, stores: dict[str, dict[str, Any]], driver: Outputs) -> list[str]:
    """Compare the final content of the stores of a case."""
    entries = {name: store_entries(case, name, store, driver) for name, store in stores.items()}
    return [
        f"store {name!r} has {entries[name]}, expected {store['entries']}"
        for name, store in stores.items()
        if entries[name] != store["entries"]
    ]


def store_entries(case: Case, name: str, store: dict[str, Any], driver: Outputs) -> list[list[Any]]:
    """Return the content of a store in the format of the case, which is that of the expected ``store``."""
    if store["type"] == "versioned":
        return _versions(case, driver.table(name))
    rows = [[plain_key(row.key), row.value, row.timestamp] for row in driver.table(name).scan()]
    if store["type"] == "session" or any(len(entry) == 2 for entry in store["entries"]):
        rows = [row[:2] for row in rows]
    return sorted(rows, key=lambda row: sort_key(row[0]))


def _versions(case: Case, table: TableReader) -> list[list[Any]]:
    """Return the versions that look-ups return for every key and timestamp that occurs in the steps."""
    assert isinstance(table, VersionedTableReader)
    keys = sorted({pipe[1] for pipe in _pipes(case) if pipe[1] is not None})
    times = sorted({pipe[3] for pipe in _pipes(case)})
    rows: list[list[Any]] = []
    for key in keys:
        newest = table.row(key)
        versions = {row.timestamp: row for time in times if (row := table.row_as_of(key, time)) is not None}
        if newest is not None:
            versions[newest.timestamp] = newest
        rows += [[key, versions[at].value, at, versions[at] == newest] for at in sorted(versions)]
    return rows


def _pipes(case: Case) -> list[Any]:
    return [step["pipe"] for step in case.steps if "pipe" in step]


def plain_key(key: Any) -> Any:
    """Return a key in the format of the cases."""
    return {"key": key.key, "start": key.start, "end": key.end} if isinstance(key, Windowed) else key


def sort_key(key: Any) -> Any:
    """Return what entries of a store are sorted by."""
    return (key["key"], key["start"], key["end"]) if isinstance(key, dict) else key
