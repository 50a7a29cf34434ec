"""Files: a batch is one file, which appears as a whole."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from pyarrow import fs
from tests.connectors.batches import batch, context, numbered
from tests.connectors.killed_writer import write_with_kills
from tests.servers.debian import NoServerError
from tests.servers.s3 import S3Server

from millstream.connectors.files import Files
from millstream.errors import ConnectorError, DefinitionError, TargetUnavailableError

SEED = 12


def lines(directory: Path) -> list[dict[str, object]]:
    return [json.loads(line) for path in sorted(directory.glob("*.jsonl")) for line in path.read_text().splitlines()]


def test_parquet_has_the_fields_of_values_and_the_origin_of_records(tmp_path: Path) -> None:
    writer = Files(str(tmp_path / "out"), columns={"id": "int64", "note": "string"}).open(context(tmp_path))
    assert not writer.write(batch(1, [("a", {"id": 1, "day": dt.date(2026, 1, 1)}), ("b", None)]))
    assert not writer.write(batch(2, [("c", {"id": 3, "note": "n"})]))
    table = ds.dataset(tmp_path / "out").to_table().sort_by("_offset")
    assert table["id"].to_pylist() == [1, None, 3]
    assert table["_deleted"].to_pylist() == [False, True, False]
    assert table["_offset"].to_pylist() == [1000, 1001, 2000]
    assert table["day"].to_pylist() == [dt.date(2026, 1, 1), None, None]
    assert table.schema.field("note").type == pa.string()


def test_json_lines_have_one_line_per_record(tmp_path: Path) -> None:
    writer = Files(str(tmp_path / "out"), format="jsonl").open(context(tmp_path))
    assert [p.record.key for p in writer.write(batch(1, [("a", 7), ("b", {"x": [1]}), ("c", object())]))] == ["c"]
    assert [(row["_key"], row.get("value"), row.get("x")) for row in lines(tmp_path / "out")] == [
        ("a", 7, None),
        ("b", None, [1]),
    ]


def test_a_repeated_batch_replaces_its_own_file(tmp_path: Path) -> None:
    sink = Files(str(tmp_path / "out"), format="jsonl")
    for number in (1, 2, 1, 2, 2):
        sink.open(context(tmp_path)).write(numbered(number))
    assert [row["id"] for row in lines(tmp_path / "out")] == list(range(20, 60))
    assert len(list((tmp_path / "out").iterdir())) == 3  # two batches and the marker, no temporary file


def test_another_lineage_is_refused_or_adopted(tmp_path: Path) -> None:
    Files(str(tmp_path / "out")).open(context(tmp_path)).write(numbered(1))
    with pytest.raises(ConnectorError, match="was written by lineage 'first'"):
        Files(str(tmp_path / "out")).open(context(tmp_path)).write(batch(1, [("a", 1)], lineage="second"))
    adopting = Files(str(tmp_path / "out"), on_other_lineage="adopt").open(context(tmp_path))
    adopting.write(batch(1, [("a", {"id": 1})], lineage="second"))
    assert ds.dataset(tmp_path / "out").count_rows() == 21


def test_a_record_that_does_not_fit_is_rejected(tmp_path: Path) -> None:
    writer = Files(str(tmp_path / "out"), columns={"id": "int64"}).open(context(tmp_path))
    rows = [("a", {"id": 1}), ("b", {"id": "many"}), ("c", {"id": 3, "_key": 1}), ("d", {"id": 4})]
    problems = {problem.record.key: problem.error for problem in writer.write(batch(1, rows))}
    assert problems.keys() == {"b", "c"}
    assert problems["b"].startswith("column 'id' is int64: ")
    assert "which is the name of a column of its own" in problems["c"]
    assert ds.dataset(tmp_path / "out").to_table()["id"].to_pylist() == [1, 4]


def test_without_declared_columns_the_first_value_decides(tmp_path: Path) -> None:
    problems = (
        Files(str(tmp_path / "out")).open(context(tmp_path)).write(batch(1, [("a", {"n": 1}), ("b", {"n": "x"})]))
    )
    assert [problem.record.key for problem in problems] == ["b"]


def test_a_file_in_the_way_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("a file")
    with pytest.raises(ConnectorError, match=r"cannot write to .*; check the URI and its permissions"):
        Files(str(tmp_path / "out")).open(context(tmp_path)).write(numbered(1))


@pytest.mark.crash
def test_kills_neither_lose_nor_double_rows(tmp_path: Path) -> None:
    sink = Files(str(tmp_path / "out"))
    kills = write_with_kills(sink, tmp_path / "writer", batches=300, kills=20, seed=SEED)
    ids = ds.dataset(tmp_path / "out", format="parquet").to_table()["id"].to_pylist()
    assert sorted(ids) == list(range(20, 301 * 20))
    assert kills > 0


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with pytest.MonkeyPatch.context() as patch:
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            patch.setenv(name, "test")
        patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        server = S3Server(tmp_path_factory.mktemp("s3"))
        try:
            server.start()
        except NoServerError as reason:
            pytest.skip(f"moto cannot run here: {reason}")
        yield server
        server.stop()


@pytest.mark.server
@pytest.mark.xdist_group("server s3")
def test_s3_has_the_same_files_and_survives_an_outage(s3: S3Server, tmp_path: Path) -> None:
    s3.create_bucket("lake")
    writer = Files(s3.uri("lake/orders"), columns={"id": "int64"}).open(context(tmp_path))
    for number in (1, 2, 1):
        assert not writer.write(numbered(number))
    file_system, path = fs.FileSystem.from_uri(s3.uri("lake/orders"))
    assert ds.dataset(path, filesystem=file_system).count_rows() == 40
    with pytest.raises(ConnectorError, match="was written by lineage 'first'"):
        Files(s3.uri("lake/orders")).open(context(tmp_path)).write(batch(1, [("a", 1)], lineage="second"))
    with pytest.raises(ConnectorError, match="check the URI") as missing:
        Files(s3.uri("none/orders")).open(context(tmp_path)).write(numbered(1))
    assert not isinstance(missing.value, TargetUnavailableError)
    s3.stop()
    with pytest.raises(TargetUnavailableError, match="sink 'out' cannot write to 's3://lake/orders"):
        writer.write(numbered(3))
    s3.start()
    s3.create_bucket("lake")
    assert not writer.write(numbered(3))
    assert ds.dataset(path, filesystem=file_system).count_rows() == 20


def test_settings_are_checked() -> None:
    with pytest.raises(DefinitionError, match="contains credentials"):
        Files("s3://key:secret@lake/orders")
    with pytest.raises(DefinitionError, match="format='csv' is not valid; use 'parquet' or 'jsonl'"):
        Files("out", format="csv")  # type: ignore[arg-type]
    with pytest.raises(DefinitionError, match="unknown type 'number'"):
        Files("out", columns={"id": "number"})
