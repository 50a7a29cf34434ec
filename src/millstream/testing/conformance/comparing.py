"""Compare what came out of a case with what Kafka Streams answered; a difference is a sentence."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any, Protocol

import msgspec

from millstream.records import Headers, Windowed
from millstream.tables.rows import TableReader
from millstream.tables.versions import VersionedTableReader
from millstream.testing.conformance.cases import Case
from millstream.testing.topic import TestTopic

Found = dict[str, list[list[Any]]]
"""Records by topic, each as [key, value, timestamp, headers]."""

_NOT_COMPARED = "*"


class Outputs(Protocol):
    """What is looked at after a step: a driver, or the part of one that belongs to a case."""

    @property
    def topics(self) -> list[str]: ...
    def topic(self, name: str) -> TestTopic: ...
    def table(self, name: str) -> TableReader: ...


def new_records(step: dict[str, Any], driver: Outputs, holds_text: Callable[[str], bool]) -> Found:
    """Return the records that a step has put on topics, without the one that was piped.

    Topics that are read, and the one of dead letters, hold plain text.
    """
    found: Found = {}
    for topic in driver.topics:
        is_raw = holds_text(topic)
        records = driver.topic(topic).read_raw() if is_raw else driver.topic(topic).read()
        own = 1 if "pipe" in step and step["pipe"][0] == topic else 0
        if records[own:]:
            found[topic] = [
                [*map(_text if is_raw else _as_is, (one.key, one.value)), one.timestamp, _plain_headers(one.headers)]
                for one in records[own:]
            ]
    return found


def _as_is(value: Any) -> Any:
    return value


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode()


def _plain_headers(headers: Headers) -> list[list[Any]]:
    """Return headers as cases write them, without those that only Millstream adds."""
    return [[name, _text(value)] for name, value in headers if not name.startswith("__millstream.")]


def step_difference(got: Found, expected: list[list[Any]], rules: dict[str, str], *, headers: bool) -> str | None:
    """Compare the records of a step: in strict order within a topic, unless a rule says otherwise."""
    wanted: Found = defaultdict(list)
    for topic, *record in expected:
        wanted[topic].append(record)
    for topic in sorted({*got, *wanted}):
        mine = [record if headers else record[:3] for record in got.get(topic, [])]
        theirs = [record if headers else record[:3] for record in wanted.get(topic, [])]
        if rules.get(topic) == "last_per_key":
            mine, theirs = last_per_key(mine), last_per_key(theirs)
        if not _same(mine, theirs):
            return f"topic {topic!r} got {mine}, expected {theirs}"
    return None


def _same(mine: Any, theirs: Any) -> bool:
    """Whether two answers are equal; what the library did not want to be compared is equal to anything."""
    if isinstance(mine, list) and isinstance(theirs, list):
        return len(mine) == len(theirs) and all(_same(*pair) for pair in zip(mine, theirs, strict=True))
    return bool(theirs == _NOT_COMPARED or mine == theirs)


def last_per_key(records: list[list[Any]]) -> list[list[Any]]:
    """Return the last record of each key, by key."""
    last = {msgspec.json.encode(record[0]): record for record in records}
    return [last[key] for key in sorted(last)]


def store_differences(case: Case, stores: dict[str, dict[str, Any]], driver: Outputs) -> list[str]:
    """Compare the end content of the stores that a case names."""
    differences: list[str] = []
    for name, store in stores.items():
        if store["type"] == "versioned":
            rows = _versions(case, driver.table(name))
            if rows != store["entries"]:
                differences.append(f"store {name!r} has versions {rows}, expected {store['entries']}")
            continue
        rows = [[plain_key(row.key), row.value, row.timestamp] for row in driver.table(name).scan()]
        if store["type"] == "session" or any(len(entry) == 2 for entry in store["entries"]):
            rows = [row[:2] for row in rows]
        rows.sort(key=lambda row: _sort_key(row[0]))
        if rows != store["entries"]:
            differences.append(f"store {name!r} has {rows}, expected {store['entries']}")
    return differences


def _versions(case: Case, table: TableReader) -> list[list[Any]]:
    """Return the versions that a lookup finds, of every key and timestamp that occurs in the steps."""
    assert isinstance(table, VersionedTableReader)
    keys = sorted({pipe[1] for pipe in _pipes(case) if pipe[1] is not None})
    times = sorted({pipe[3] for pipe in _pipes(case)})
    found: list[list[Any]] = []
    for key in keys:
        newest = table.row(key)
        versions = {row.timestamp: row for time in times if (row := table.row_as_of(key, time)) is not None}
        if newest is not None:
            versions[newest.timestamp] = newest
        found += [[key, versions[at].value, at, versions[at] == newest] for at in sorted(versions)]
    return found


def _pipes(case: Case) -> list[Any]:
    return [step["pipe"] for step in case.steps if "pipe" in step]


def plain_key(key: Any) -> Any:
    """Return a key as cases write it."""
    return {"key": key.key, "start": key.start, "end": key.end} if isinstance(key, Windowed) else key


def _sort_key(key: Any) -> Any:
    return (key["key"], key["start"], key["end"]) if isinstance(key, dict) else key
