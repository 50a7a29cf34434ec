"""Flink's side of Nexmark: its events are Millstream's, and its changes become the rows that the reference has."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest
from benchmarks.nexmark.app import queries_of
from benchmarks.nexmark.backlog import Backlog
from benchmarks.nexmark.flink_side import LISTS, SQL, events_read, final_rows, read_lines
from benchmarks.nexmark.model import Bid, events
from benchmarks.nexmark.reference import REFERENCES, database
from benchmarks.nexmark.table import markdown


@pytest.fixture(scope="module")
def backlog(tmp_path_factory: pytest.TempPathFactory) -> Backlog:
    """Provide 200 events in all forms."""
    backlog = Backlog(tmp_path_factory.mktemp("nexmark") / "backlog")
    backlog.prepare(200, 2)
    return backlog


def test_files_hold_the_events_of_the_log_in_order(backlog: Backlog) -> None:
    lines = [path.read_bytes().splitlines() for path in sorted((backlog.files / "bid").glob("*.json"))]
    bids = [[msgspec.json.decode(line, type=Bid) for line in partition] for partition in lines]
    expected = [event for event in events(200) if isinstance(event, Bid)]
    assert sorted((bid for partition in bids for bid in partition), key=lambda bid: bid.time) == expected
    assert [len(partition) for partition in bids] == [92, 92]
    assert all([bid.time for bid in partition] == sorted(bid.time for bid in partition) for partition in bids)


def test_events_are_kept_until_other_ones_are_needed(tmp_path: Path) -> None:
    backlog = Backlog(tmp_path / "backlog")
    backlog.prepare(100, 2)
    written_at = backlog.database.stat().st_mtime_ns
    backlog.prepare(100, 2)
    assert backlog.database.stat().st_mtime_ns == written_at
    backlog.prepare(50, 2)
    with backlog.reference() as reference:
        assert reference.sql("SELECT count(*) FROM bid").fetchall() == [(46,)]


@pytest.mark.parametrize("query", queries_of("python"))
def test_each_query_is_written_for_flink_with_the_columns_of_the_reference(query: str, backlog: Backlog) -> None:
    statements = (SQL / f"{query}.sql").read_text()
    match = re.search(r"CREATE TABLE target \((.*?)\) WITH", statements, re.DOTALL)
    assert match
    columns = re.findall(r"`?(\w+)`? (?:BIGINT|STRING|DOUBLE)", match[1])
    with backlog.reference() as reference:
        expected = reference.sql(REFERENCES[query].sql).columns
    assert query in LISTS or sorted(set(columns) - {"start"}) == sorted(set(expected) - {"start"})
    assert "INSERT INTO target" in statements


@pytest.mark.parametrize(("query", "expected"), [("q0", 184), ("q3", 16), ("q8", 16), ("q5", 184), ("q20", 196)])
def test_the_events_of_a_query_are_those_of_its_sources(query: str, expected: int, backlog: Backlog) -> None:
    with backlog.reference() as reference:
        assert events_read(query, reference) == expected


def test_the_last_change_of_a_key_counts() -> None:
    lines = ['+{"category":10,"average":1.0}', '-{"category":10,"average":null}', '+{"category":11,"average":2.0}']
    assert final_rows("q4", lines) == [{"category": 11, "average": 2.0}]
    assert final_rows("q4", [*lines, '+{"category":11,"average":3.0}']) == [{"category": 11, "average": 3.0}]


def test_rows_without_a_key_are_removed_as_often_as_flink_removes_them() -> None:
    lines = [
        '+{"auction":1,"price":5}',
        '+{"auction":1,"price":5}',
        '-{"auction":1,"price":5}',
        '+{"auction":1,"price":7}',
    ]
    assert final_rows("q19", lines) == [{"auction": 1, "prices": [7, 5]}]


def test_leaders_of_a_window_are_one_row() -> None:
    lines = ['+{"start":0,"number":3,"name":9}', '+{"start":0,"number":3,"name":4}']
    assert final_rows("q5", lines) == [{"start": 0, "number": 3, "names": [4, 9]}]


def test_files_of_a_task_are_read_in_their_order(tmp_path: Path) -> None:
    for name in ("part-a-2", "part-a-10", "part-b-0"):
        (tmp_path / name).write_text(f"{name}\n")
    (tmp_path / ".part-b-1.inprogress").write_text("not committed\n")
    assert [line.strip() for line in read_lines(tmp_path)] == ["part-a-2", "part-a-10", "part-b-0"]


def test_the_reference_is_the_same_in_memory_and_on_disk(backlog: Backlog) -> None:
    with backlog.reference() as reference, database(events(200)) as memory:
        for sql in ("SELECT * FROM person", "SELECT * FROM auction", "SELECT * FROM bid", "SELECT * FROM side"):
            assert reference.sql(sql).fetchall() == memory.sql(sql).fetchall()


def test_the_table_has_a_row_for_each_query_of_both_sides() -> None:
    ours = {"records": 1_000_000, "records_per_second": 400_400.0, "cpu_seconds": 8.0}
    theirs = {
        **ours,
        "records_per_second": 200_200.0,
        "cpu_seconds": 20.0,
        "warm_records": 5e5,
        "warm_cpu_seconds": 3.0,
    }
    warm = {"warm_records": 500_000, "warm_cpu_seconds": 1.5}
    results = {"q10 python": {**ours, **warm}, "q10 flink": theirs, "q2 python": {**ours, **warm}}
    _, _, *rows = markdown(results).splitlines()
    assert rows == ["| q10 | 400,000 | 200,000 | 2.0 | 8.0 | 20.0 | 2.5 | 3.0 | 6.0 | 2.0 |"]
    nothing = {"warm_records": 0, "warm_cpu_seconds": 0.0}
    assert markdown({**results, "q10 python": {**ours, **nothing}}).endswith("| 8.0 | 20.0 | 2.5 |  |  |  |")
