"""Iceberg: rows and the number of their batch are one commit."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog import load_catalog
from tests.connectors.batches import batch, context, numbered
from tests.connectors.killed_writer import write_with_kills

from millstream.connect.protocols import Sink
from millstream.connectors.iceberg import Iceberg
from millstream.errors import ConnectorError, DefinitionError
from millstream.testing.connectors import SINK_CASES, SinkTarget, check_sink

SEED = 15


def catalog(path: Path) -> dict[str, str]:
    return {"type": "sql", "uri": f"sqlite:///{path}/catalog.db", "warehouse": f"file://{path}/warehouse"}


def rows(path: Path) -> list[dict[str, Any]]:
    table = load_catalog("default", **catalog(path)).load_table("shop.out").scan().to_arrow()
    return list(table.sort_by([("_key", "ascending"), ("_offset", "ascending")]).to_pylist())


class IcebergTarget(SinkTarget):
    def __init__(self, directory: Path) -> None:
        directory.mkdir()
        self.directory = directory

    def sink(self) -> Sink:
        return Iceberg("shop.out", catalog=catalog(self.directory), mode="upsert")

    def rows(self) -> list[tuple[Any, Any]]:
        return [(row["_key"], {"n": row["n"]}) for row in rows(self.directory)]


@pytest.mark.slow
@pytest.mark.parametrize("case", SINK_CASES)
def test_it_passes_the_kit(case: str, tmp_path: Path) -> None:
    numbers = itertools.count()
    check_sink(case, lambda: IcebergTarget(tmp_path / str(next(numbers))), tmp_path / "log")


def test_appended_rows_are_written_once(tmp_path: Path) -> None:
    sink = Iceberg("shop.out", catalog=catalog(tmp_path))
    for number in (1, 2, 1, 2):
        assert not sink.open(context(tmp_path)).write(numbered(number))
    assert sorted(row["id"] for row in rows(tmp_path)) == list(range(20, 60))
    assert not sink.open(context(tmp_path)).write(batch(3, [("z", {"id": 7, "new": "column"}), ("z", None)]))
    assert [(row["id"], row["new"], row["_deleted"]) for row in rows(tmp_path)[-2:]] == [
        (7, "column", False),
        (None, None, True),
    ]


def test_an_upsert_keeps_one_row_for_each_key(tmp_path: Path) -> None:
    sink = Iceberg("shop.out", catalog=catalog(tmp_path), mode="upsert")
    writer = sink.open(context(tmp_path))
    assert not writer.write(batch(1, [("a", {"n": 1}), ("b", {"n": 1}), ("a", {"n": 2}), ("c", {"n": 1}), ("c", None)]))
    assert not writer.write(batch(2, [("a", {"n": 3, "new": True}), ("b", None), ("d", {"n": 4}), ("e", None)]))
    problems = writer.write(batch(2, [("a", {"n": 99}), (None, {"n": 1})]))
    assert [problem.error for problem in problems] == ["the record has no key; set one with select_key"]
    assert [(row["_key"], row["n"], row["new"]) for row in rows(tmp_path)] == [("a", 3, True), ("d", 4, None)]


def test_another_lineage_is_refused_or_adopted(tmp_path: Path) -> None:
    Iceberg("shop.out", catalog=catalog(tmp_path)).open(context(tmp_path)).write(numbered(5))
    with pytest.raises(ConnectorError, match="and this batch is of 'second'"):
        Iceberg("shop.out", catalog=catalog(tmp_path)).open(context(tmp_path)).write(
            batch(1, [("a", {"id": 1})], lineage="second")
        )
    adopting = Iceberg("shop.out", catalog=catalog(tmp_path), on_other_lineage="adopt").open(context(tmp_path))
    for _ in range(2):
        adopting.write(batch(1, [("a", {"id": 1})], lineage="second"))
    assert len(rows(tmp_path)) == 21


def test_a_record_that_does_not_fit_the_table_is_rejected(tmp_path: Path) -> None:
    writer = Iceberg("shop.out", catalog=catalog(tmp_path), columns={"n": "int64"}).open(context(tmp_path))
    assert not writer.write(batch(1, [("a", {"n": 1, "note": "x"})]))
    problems = writer.write(batch(2, [("b", {"n": 2, "note": 7}), ("c", {"n": 3, "note": "y"}), ("d", object())]))
    assert sorted(problem.record.key for problem in problems) == ["b", "d"]
    assert [row["n"] for row in rows(tmp_path)] == [1, 3]


@pytest.mark.crash
def test_kills_neither_lose_nor_double_rows(tmp_path: Path) -> None:
    sink = Iceberg("shop.out", catalog=catalog(tmp_path))
    kills = write_with_kills(sink, tmp_path / "writer", batches=25, kills=6, seed=SEED)
    assert sorted(row["id"] for row in rows(tmp_path)) == list(range(20, 26 * 20))
    assert kills > 0


def test_settings_are_checked(tmp_path: Path) -> None:
    with pytest.raises(DefinitionError, match="table='out' has no namespace; write NAMESPACE"):
        Iceberg("out", catalog={})
    broken = {"type": "sql", "uri": f"sqlite:///{tmp_path}/none/catalog.db", "warehouse": str(tmp_path)}
    with pytest.raises(ConnectorError, match=r"cannot write to table 'shop\.out': OperationalError"):
        Iceberg("shop.out", catalog=broken).open(context(tmp_path)).write(numbered(1))
