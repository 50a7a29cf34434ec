"""The queries of Nexmark give what a batch computation in DuckDB gives."""

from __future__ import annotations

import duckdb
import pytest
from benchmarks.nexmark.app import LANGUAGES, build, queries_of
from benchmarks.nexmark.load import load
from benchmarks.nexmark.model import events
from benchmarks.nexmark.reference import database, difference
from benchmarks.nexmark.results import TARGET, rows_of

from millstream.testing import TestDriver

EVENTS = list(events(4_000))


@pytest.fixture(scope="module")
def reference() -> duckdb.DuckDBPyConnection:
    """Provide the same events as tables."""
    return database(EVENTS)


@pytest.mark.parametrize(
    ("language", "query"), [(language, query) for language in LANGUAGES for query in queries_of(language)]
)
def test_results_are_those_of_a_batch_computation(
    language: str, query: str, reference: duckdb.DuckDBPyConnection
) -> None:
    with TestDriver(build(query, language), partitions=2) as driver:
        with driver.holding():
            load(driver.broker, EVENTS, 2, driver.app.plan.source_topics)
        if query == "q10":
            rows = iter(driver.sink("files").read_values())
        else:
            rows = rows_of(driver.topic(TARGET, key=bytes, value=bytes).read_values())
        assert difference(reference, query, rows) is None
