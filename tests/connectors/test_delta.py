"""Delta: rows and the number of their batch are one commit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from tests.connectors.batches import batch, context, numbered
from tests.connectors.killed_writer import write_with_kills

from millstream.connectors.delta import Delta
from millstream.errors import ConnectorError, DefinitionError

SEED = 14


def rows(path: Path) -> list[dict[str, Any]]:
    table = pa.table(DeltaTable(str(path)).to_pyarrow_table())
    return list(table.sort_by([("_key", "ascending"), ("_offset", "ascending")]).to_pylist())


def test_appended_rows_are_written_once(tmp_path: Path) -> None:
    sink = Delta(str(tmp_path / "out"))
    for number in (1, 2, 1, 2):
        assert not sink.open(context(tmp_path)).write(numbered(number))
    assert sorted(row["id"] for row in rows(tmp_path / "out")) == list(range(20, 60))
    assert not sink.open(context(tmp_path)).write(batch(3, [("z", {"id": 7, "new": "column"}), ("z", None)]))
    assert [(row["id"], row["new"], row["_deleted"]) for row in rows(tmp_path / "out")[-2:]] == [
        (7, "column", False),
        (None, None, True),
    ]


def test_an_upsert_keeps_one_row_for_each_key(tmp_path: Path) -> None:
    sink = Delta(str(tmp_path / "out"), mode="upsert")
    writer = sink.open(context(tmp_path))
    assert not writer.write(batch(1, [("a", {"n": 1}), ("b", {"n": 1}), ("a", {"n": 2}), ("c", {"n": 1}), ("c", None)]))
    assert not writer.write(batch(2, [("a", {"n": 3, "new": True}), ("b", None), ("d", {"n": 4}), ("e", None)]))
    problems = writer.write(batch(2, [("a", {"n": 99}), (None, {"n": 1})]))
    assert [problem.error for problem in problems] == ["the record has no key; set one with select_key"]
    assert [(row["_key"], row["n"], row["new"]) for row in rows(tmp_path / "out")] == [("a", 3, True), ("d", 4, None)]


def test_another_lineage_is_refused_or_adopted(tmp_path: Path) -> None:
    Delta(str(tmp_path / "out")).open(context(tmp_path)).write(numbered(5))
    with pytest.raises(ConnectorError, match="and this batch is of 'second'"):
        Delta(str(tmp_path / "out")).open(context(tmp_path)).write(batch(1, [("a", {"id": 1})], lineage="second"))
    adopting = Delta(str(tmp_path / "out"), on_other_lineage="adopt").open(context(tmp_path))
    for _ in range(2):
        adopting.write(batch(1, [("a", {"id": 1})], lineage="second"))
    assert len(rows(tmp_path / "out")) == 21


def test_a_record_that_does_not_fit_the_table_is_rejected(tmp_path: Path) -> None:
    writer = Delta(str(tmp_path / "out"), columns={"n": "int64"}).open(context(tmp_path))
    assert not writer.write(batch(1, [("a", {"n": 1, "note": "x"})]))
    problems = writer.write(batch(2, [("b", {"n": 2, "note": 7}), ("c", {"n": 3, "note": "y"}), ("d", object())]))
    assert sorted(problem.record.key for problem in problems) == ["b", "d"]
    assert [row["n"] for row in rows(tmp_path / "out")] == [1, 3]


@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_fields_of_nested_values_are_added_and_none_is_dropped(tmp_path: Path, mode: Any) -> None:
    writer = Delta(str(tmp_path / "out"), mode=mode).open(context(tmp_path))
    assert not writer.write(batch(1, [("a", {"at": {"x": 1}, "legs": [{"n": 1}]})]))
    assert not writer.write(batch(2, [("b", {"at": {"x": 2, "y": 3}, "legs": [{"n": 2, "m": 4}]})]))
    disagreeing = [("c", {"at": {"x": 4}}), ("d", {"at": {"x": 5, "z": 5}}), ("e", {"at": {"x": 6, "z": "text"}})]
    problems = writer.write(batch(3, disagreeing))
    assert [problem.record.key for problem in problems] == ["d", "e"]
    assert "has other fields" in problems[0].error
    written = [(row["at"], row["legs"]) for row in rows(tmp_path / "out")]
    assert written == [
        ({"x": 1, "y": None}, [{"n": 1, "m": None}]),
        ({"x": 2, "y": 3}, [{"n": 2, "m": 4}]),
        ({"x": 4, "y": None}, None),
    ]


def test_a_rejected_record_does_not_hide_the_one_before_it(tmp_path: Path) -> None:
    writer = Delta(str(tmp_path / "out"), mode="upsert", columns={"n": "int64"}).open(context(tmp_path))
    problems = writer.write(batch(1, [("a", {"n": 1}), ("b", {"n": 2}), ("a", {"n": "text"})]))
    assert [problem.record.offset for problem in problems] == [1002]
    assert [(row["_key"], row["n"]) for row in rows(tmp_path / "out")] == [("a", 1), ("b", 2)]


@pytest.mark.crash
def test_kills_neither_lose_nor_double_rows(tmp_path: Path) -> None:
    sink = Delta(str(tmp_path / "out"))
    kills = write_with_kills(sink, tmp_path / "writer", batches=60, kills=15, seed=SEED)
    assert sorted(row["id"] for row in rows(tmp_path / "out")) == list(range(20, 61 * 20))
    assert kills > 0


def test_settings_are_checked(tmp_path: Path) -> None:
    with pytest.raises(DefinitionError, match="mode='merge' is not valid"):
        Delta("out", mode="merge")  # type: ignore[arg-type]
    (tmp_path / "out").write_text("a file")
    with pytest.raises(ConnectorError, match="cannot write to"):
        Delta(str(tmp_path / "out")).open(context(tmp_path)).write(numbered(1))
