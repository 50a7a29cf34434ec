"""Replay a case on the test driver and compare what came out with what Kafka Streams answered."""

from __future__ import annotations

from collections import defaultdict
from datetime import timedelta
from typing import Any

import msgspec

from millstream.errors import MillstreamError
from millstream.records import Windowed
from millstream.tables import TableReader, VersionedTableReader
from millstream.testing.conformance.cases import Case
from millstream.testing.conformance.topology import Topology, UnsupportedCaseError
from millstream.testing.driver import TestDriver


class Outcome(msgspec.Struct, frozen=True):
    """How a case ended: passed, failed with the differences, or unsupported with the reason."""

    case: str
    group: str
    status: str
    differences: tuple[str, ...] = ()


def replay(case: Case) -> Outcome:
    """Replay a case."""
    if case.config is not None or case.queries or case.headers or case.expect.error is not None:
        return Outcome(case.id, case.group, "unsupported", ("settings, queries, headers and refusals come later",))
    try:
        topology = Topology(case.topology)
        with TestDriver(topology.app, one_stream_time=True) as driver:
            differences = _run(case, driver)
    except UnsupportedCaseError as error:
        return Outcome(case.id, case.group, "unsupported", (str(error),))
    except MillstreamError as error:
        return Outcome(case.id, case.group, "failed", (f"{type(error).__name__}: {error}",))
    return Outcome(case.id, case.group, "failed" if differences else "passed", tuple(differences))


def _run(case: Case, driver: TestDriver) -> list[str]:
    for number, (step, expected) in enumerate(zip(case.steps, case.expect.steps, strict=True)):
        _do(step, driver)
        difference = _difference(_new_records(step, driver), expected, case.compare)
        if difference is not None:
            return [f"step {number} {msgspec.json.encode(step).decode()}: {difference}"]
    return _store_differences(case, driver)


def _do(step: dict[str, Any], driver: TestDriver) -> None:
    if "pipe" in step:
        topic, key, value, timestamp = step["pipe"][:4]
        if topic in driver.topics:
            driver.topic(topic).pipe(value, key=key, timestamp=timestamp)
    else:
        driver.advance_wall_clock(timedelta(milliseconds=step["advance_wall_clock_ms"]))


def _new_records(step: dict[str, Any], driver: TestDriver) -> dict[str, list[list[Any]]]:
    """Return the records that a step has put on topics, without the one that was piped."""
    found: dict[str, list[list[Any]]] = {}
    for topic in driver.topics:
        records = [[record.key, record.value, record.timestamp] for record in driver.topic(topic).read()]
        own = 1 if "pipe" in step and step["pipe"][0] == topic else 0
        if records[own:]:
            found[topic] = records[own:]
    return found


def _difference(got: dict[str, list[list[Any]]], expected: list[list[Any]], rules: dict[str, str]) -> str | None:
    wanted: dict[str, list[list[Any]]] = defaultdict(list)
    for topic, *record in expected:
        wanted[topic].append(record[:3])
    for topic in sorted({*got, *wanted}):
        mine, theirs = got.get(topic, []), wanted.get(topic, [])
        if rules.get(topic) == "last_per_key":
            mine, theirs = _last_per_key(mine), _last_per_key(theirs)
        if mine != theirs:
            return f"topic {topic!r} got {mine}, expected {theirs}"
    return None


def _last_per_key(records: list[list[Any]]) -> list[list[Any]]:
    last = {msgspec.json.encode(record[0]): record for record in records}
    return [last[key] for key in sorted(last)]


def _store_differences(case: Case, driver: TestDriver) -> list[str]:
    differences: list[str] = []
    for name, store in case.expect.stores.items():
        if store["type"] == "versioned":
            rows = _versions(case, driver.table(name))
            if rows != store["entries"]:
                differences.append(f"store {name!r} has versions {rows}, expected {store['entries']}")
            continue
        rows = [[_plain(row.key), row.value, row.timestamp] for row in driver.table(name).scan()]
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


def _plain(key: Any) -> Any:
    return {"key": key.key, "start": key.start, "end": key.end} if isinstance(key, Windowed) else key


def _sort_key(key: Any) -> Any:
    return (key["key"], key["start"], key["end"]) if isinstance(key, dict) else key
