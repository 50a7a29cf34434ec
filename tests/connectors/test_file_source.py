"""Files are read as they grow, each byte once: rotated, truncated, replaced, restarted."""

from __future__ import annotations

import os
import random
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.connectors.batches import batch, context
from tests.connectors.source_reading import Reading

from millstream.connectors.file_source import FollowFiles
from millstream.connectors.file_source.reader import FilesReader
from millstream.connectors.file_source.tracked import Tracked
from millstream.connectors.files import Files
from millstream.errors import ConnectorError, DefinitionError
from millstream.records import Record
from millstream.testing.connectors import SOURCE_CASES, SourceSystem, check_source

SEED = 20


class JsonLines(SourceSystem):
    topic = "changes"
    patience = 0.0

    def __init__(self, directory: Path) -> None:
        self._path = directory / f"{os.urandom(4).hex()}.jsonl"
        self._path.touch()

    def source(self) -> FollowFiles:
        return FollowFiles(self._path, topic=self.topic, key="key", deleted="gone", partitions=2)

    def change(self, key: str, number: int | None) -> None:
        row = {"key": key, "number": number, "gone": number is None}
        with self._path.open("ab") as file:
            file.write(msgspec.json.encode(row) + b"\n")

    def number_of(self, record: Record[bytes | None, bytes | None]) -> int | None:
        return None if record.value is None else int(msgspec.json.decode(record.value)["number"])


@pytest.mark.parametrize("case", SOURCE_CASES)
def test_it_passes_the_kit(case: str, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    check_source(case, lambda: JsonLines(tmp_path / "in"), tmp_path / "bench")


def values(reading: Reading) -> list[object]:
    return [value for _, value in reading.read()]


def test_a_line_is_read_when_it_is_complete(tmp_path: Path) -> None:
    log = tmp_path / "app.jsonl"
    log.write_text('{"n": 1}\n{"n"')
    with Reading(FollowFiles(log, topic="logs"), tmp_path) as reading:
        assert values(reading) == [{"n": 1}]
        assert values(reading) == []
        with log.open("a") as file:
            file.write(": 2}\r\n\n")
        assert values(reading) == [{"n": 2}]
    settled = FollowFiles(log, topic="logs", settled="0 s")
    log.write_text('{"n": 3}')
    with Reading(settled, tmp_path) as reading:
        assert values(reading) == [{"n": 3}]


def test_a_rotated_file_is_read_to_its_end_and_not_twice(tmp_path: Path) -> None:
    log = tmp_path / "app.jsonl"
    log.write_text("1\n2\n")
    with Reading(FollowFiles(log, topic="logs"), tmp_path) as reading:
        assert values(reading) == [1, 2]
        writer = log.open("a")
        log.rename(tmp_path / "app.jsonl.1")
        log.write_text("10\n")
        writer.write("3\n")  # the writer has not reopened its file yet
        writer.close()
        assert sorted(map(str, values(reading) + values(reading))) == ["10", "3"]
        assert values(reading) == []


def test_a_file_that_was_rotated_while_nothing_ran_is_read_to_its_end(tmp_path: Path) -> None:
    log = tmp_path / "app.jsonl"
    log.write_text("1\n")
    reading = Reading(FollowFiles(log, topic="logs"), tmp_path)
    assert values(reading) == [1]
    reading.close()
    with log.open("a") as file:
        file.write("2\n")
    log.rename(tmp_path / "app.jsonl.1")
    log.write_text("10\n")
    with reading:
        assert sorted(map(str, values(reading) + values(reading))) == ["10", "2"]


@pytest.mark.parametrize("restarts", [False, True])
def test_a_truncated_file_is_read_from_its_start(tmp_path: Path, restarts: bool) -> None:
    log = tmp_path / "app.jsonl"
    log.write_text("1\n2\n3\n")
    reading = Reading(FollowFiles(log, topic="logs"), tmp_path)
    assert values(reading) == [1, 2, 3]
    for text, expected in (("4\n", [4]), ("5\n66\n777\n8888\n", [5, 66, 777, 8888])):  # shorter, and longer than before
        if restarts:
            reading.close()
        os.truncate(log, 0)
        with log.open("r+") as file:
            file.write(text)
        assert values(reading) == expected
    reading.close()


def test_a_new_file_with_the_inode_of_a_deleted_one_is_read_from_its_start(tmp_path: Path) -> None:
    """Also if both have the same long header, as files of CSV do."""
    header = ",".join(f"column{number}" for number in range(60)) + "\n"
    path = tmp_path / "a.csv"
    path.write_text(header + "1\n")
    reading = Reading(FollowFiles(tmp_path / "*.csv", topic="rows", format="csv"), tmp_path)
    assert values(reading) == [{"column0": "1"}]
    reading.close()
    os.truncate(path, 0)  # the same inode, another content
    path.write_text(header + "2\n")
    with reading:
        assert values(reading) == [{"column0": "2"}]


def test_rows_of_csv_have_names_types_and_line_feeds_in_quotes(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text('\ufeffid;note;paid;total\n1;"two\nlines";true;1.5\n2;"say ""hi""";no;many\n3;"open')
    source = FollowFiles(
        path, topic="rows", format="csv", delimiter=";", types={"paid": "bool", "total": "float"}, key="id"
    )
    with Reading(source, tmp_path) as reading:
        assert reading.read() == [
            ("1", {"id": "1", "note": "two\nlines", "paid": True, "total": 1.5}),
            ("2", {"id": "2", "note": 'say "hi"', "paid": "no", "total": "many"}),
        ]
        with path.open("a") as file:
            file.write('\nrow"\n4;a;true;1;extra\n')
        assert [value for _, value in reading.read()] == [
            {"id": "3", "note": "open\nrow"},
            {"id": "4", "note": "a", "paid": True, "total": 1.0, "_rest": ["extra"]},
        ]


def test_parquet_files_are_read_when_they_are_complete(tmp_path: Path) -> None:
    table = pa.table({"id": [1, 2, 3], "name": ["a", "b", None]})
    scratch = tmp_path / "scratch"
    pq.write_table(table, scratch, row_group_size=2)
    data = scratch.read_bytes()
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.parquet").write_bytes(data[:-5])
    with Reading(FollowFiles(folder, topic="rows", format="parquet", key="id"), tmp_path) as reading:
        assert values(reading) == []
        with (folder / "a.parquet").open("ab") as file:
            file.write(data[-5:])
        rows = reading.read()
        reading.close()  # between two row groups
        rows += reading.read()
        assert rows == [("1", {"id": 1, "name": "a"}), ("2", {"id": 2, "name": "b"}), ("3", {"id": 3, "name": None})]
        assert values(reading) == []


def test_what_the_sink_of_files_writes_is_read_back(tmp_path: Path) -> None:
    writer = Files(str(tmp_path / "lake"), format="parquet").open(context(tmp_path))
    writer.write(batch(1, [("a", {"n": 1}), ("b", {"n": 2}), ("a", None)]))
    source = FollowFiles(tmp_path / "lake", topic="copy", format="parquet", key="_key", deleted="_deleted")
    with Reading(source, tmp_path) as reading:
        rows = reading.read()
    assert [(key, value and value["n"]) for key, value in rows] == [("a", 1), ("b", 2), ("a", None)]


def test_every_line_of_many_rotations_and_restarts_is_read_once(tmp_path: Path) -> None:
    choice = random.Random(SEED)
    log, written, read = tmp_path / "app.log", 0, []
    reading = Reading(FollowFiles(tmp_path / "app.log*", topic="logs"), tmp_path)
    for _ in range(300):
        action = choice.choice(["write", "write", "rotate", "read", "restart", "die"])
        if action == "write":
            with log.open("a") as file:
                for _ in range(choice.randrange(1, 5)):
                    file.write(f"{written}\n")
                    written += 1
        elif action == "rotate" and log.exists():
            log.rename(tmp_path / f"app.log.{written}.{choice.random()}")
        elif action == "restart":
            reading.close()
        elif action == "die":
            reading.read(0.0, commit=False)
            reading.close()
        else:
            read += [value for _, value in reading.read(0.0)]
    while more := reading.read(0.0):
        read += [value for _, value in more]
    reading.close()
    assert sorted(read) == list(range(written)), f"seed {SEED}"


def test_a_file_that_is_rotated_between_the_look_and_its_opening_is_not_read_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "app.log"
    log.write_text("1\n2\n")
    reading = Reading(FollowFiles(tmp_path / "app.log*", topic="logs"), tmp_path)
    assert values(reading) == [1, 2]
    reading.close()  # a restart: the file is not open
    with log.open("a") as file:
        file.write("3\n")
    is_same = FilesReader._is_same

    def rotated(reader: FilesReader, tracked: Tracked) -> bool:
        if not (tmp_path / "app.log.1").exists():
            log.rename(tmp_path / "app.log.1")
            log.write_text("10\n")
        return is_same(reader, tracked)

    monkeypatch.setattr(FilesReader, "_is_same", rotated)
    with reading:
        assert sorted(str(value) for _ in range(4) for value in values(reading)) == ["10", "3"]


def test_a_record_without_an_end_stops_the_source(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"1\n" + b"x" * (1 << 20))
    with Reading(FollowFiles(path, topic="logs"), tmp_path) as reading:
        assert values(reading) == [1]
        with pytest.raises(ConnectorError, match="has a record at byte 2 that does not end within 1048576 bytes"):
            reading.read()


def test_wrong_settings_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DefinitionError, match="lines have no fields"):
        FollowFiles("x", topic="t", format="lines", key="id")
    with pytest.raises(DefinitionError, match="types= and delimiter= are for CSV"):
        FollowFiles("x", topic="t", types={"id": "int"})
    assert FollowFiles(tmp_path / "no" / "x", topic="t").check() == [
        f"{str(tmp_path / 'no')!r} is not a directory; create it or correct path="
    ]
