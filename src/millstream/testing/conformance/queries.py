"""Run the queries of a conformance case."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from millstream.records import Windowed
from millstream.tables.rows import Row, TableReader
from millstream.tables.versions import VersionedTableReader
from millstream.tables.windows import WindowTableReader
from millstream.testing.conformance.cases import Case
from millstream.testing.conformance.comparing import plain_key
from millstream.testing.driver import TestDriver

Query = dict[str, Any]
RunQuery = Callable[[Any, Query, bool], Any]
"""(table, query, whether rows are in reverse order) → rows, a row or None."""


def query_differences(case: Case, driver: TestDriver) -> list[str]:
    """Compare the results of the queries of a case."""
    differences = []
    for number, (query, expected) in enumerate(zip(case.queries, case.expect.queries, strict=True)):
        actual = run_query(driver.table(query["store"]), query, expected)
        if actual != _comparable(expected, driver.table(query["store"])):
            differences.append(f"query {number} {query}: got {actual}, expected {expected}")
    return differences


def _comparable(expected: Any, table: TableReader) -> Any:
    """Remove the end of validity, which this version of Kafka Streams does not return."""
    return expected[:2] if isinstance(table, VersionedTableReader) and expected is not None else expected


def run_query(table: TableReader, query: Query, expected: Any) -> Any:
    """Run a query and return the result in the format of the case."""
    name = query["query"]
    backward = name.startswith(("backward_", "reverse_"))
    run = _QUERIES[_kind(table)][name.removeprefix("backward_").removeprefix("reverse_")]
    result = run(table, query, backward)
    if result is None or isinstance(result, Row):
        return None if result is None else [result.value, result.timestamp][: len(expected or "..")]
    width = max((len(entry) for entry in expected), default=3)
    return [[_key(row, name, table), row.value, row.timestamp][:width] for row in result]


def _kind(table: TableReader) -> str:
    if isinstance(table, VersionedTableReader):
        return "versioned"
    return "window" if isinstance(table, WindowTableReader) else "key_value"


def _key(row: Row, query: str, table: TableReader) -> Any:
    """Return the key of a row: for windows of one key only the start, for sessions always the full key."""
    is_one_key = query in ("fetch", "backward_fetch")
    is_session = isinstance(table, WindowTableReader) and table.has_sessions
    return row.key.start if is_one_key and not is_session else plain_key(row.key)


def _fetch(table: WindowTableReader, query: Query, backward: bool) -> list[Row]:
    bounds = {"start": query["from"], "stop": query["to"]} if "from" in query else {}
    return table.windows(query["key"], **bounds, reverse=backward)


def _fetch_range(table: WindowTableReader, query: Query, backward: bool) -> Iterable[Row]:
    bounds = {"start": query["from"], "stop": query["to"]} if "from" in query else {}
    return table.windows_of_all(query.get("key_from"), query.get("key_to"), **bounds, reverse=backward)


def _session_bounds(query: Query) -> dict[str, Any]:
    return {"earliest_end": query["earliest_end"], "latest_start": query["latest_start"]}


_QUERIES: dict[str, dict[str, RunQuery]] = {
    "key_value": {
        "get": lambda t, q, _: t.row(q["key"]),
        "range": lambda t, q, backward: t.range(q["from"], q["to"], reverse=backward),
        "all": lambda t, _, backward: t.range(reverse=backward),
        "prefix_scan": lambda t, q, backward: t.prefix(q["prefix"], reverse=backward),
    },
    "window": {
        "fetch_one": lambda t, q, _: t.window(q["key"], q["at"]),
        "fetch": _fetch,
        "fetch_range": _fetch_range,
        "fetch_all": _fetch_range,
        "all": _fetch_range,
        "find_sessions": lambda t, q, backward: t.sessions(q["key"], **_session_bounds(q), reverse=backward),
        "find_sessions_range": lambda t, q, backward: t.sessions_of_all(
            q["key_from"], q["key_to"], **_session_bounds(q), reverse=backward
        ),
        "fetch_session": lambda t, q, _: t.row(Windowed(q["key"], q["start"], q["end"])),
    },
    "versioned": {
        "get": lambda t, q, _: t.row(q["key"]),
        "get_as_of": lambda t, q, _: t.row_as_of(q["key"], q["as_of"]),
    },
}
