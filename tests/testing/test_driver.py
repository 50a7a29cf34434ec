from pathlib import Path

import pytest

from millstream import App
from millstream.config import Config
from millstream.errors import UnknownTableError, UnknownTopicError
from millstream.records import Record
from millstream.testing import TestDriver


def copy_app() -> App:
    app = App("test")
    app.stream("n", value=int).to("out")
    return app


def test_each_record_is_read_once() -> None:
    with TestDriver(copy_app()) as driver:
        driver.topic("n").pipe(1, 2)
        assert driver.topic("out").read_values() == [1, 2]
        driver.topic("n").pipe(3)
        assert driver.topic("out").read_values() == [3]
        assert driver.topic("out").read() == []


def test_a_record_is_read_with_key_timestamp_and_headers() -> None:
    with TestDriver(copy_app()) as driver:
        driver.topic("n").pipe(1, key="k", timestamp=5, headers=(("h", b"1"), ("h", None)))
        assert driver.topic("out").read() == [Record("out", 0, 0, "k", 1, 5, (("h", b"1"), ("h", None)))]


def test_timestamps_default_to_the_wall_clock_which_only_advances_on_request() -> None:
    with TestDriver(copy_app(), wall_clock=1_000) as driver:
        driver.topic("n").pipe(1, 2)
        driver.advance_wall_clock("2 s")
        driver.topic("n").pipe(3)
        assert [record.timestamp for record in driver.topic("out").read()] == [1_000, 1_000, 3_000]


def test_raw_bytes_can_be_piped_and_read() -> None:
    with TestDriver(copy_app()) as driver:
        driver.topic("n").pipe_raw(b" 7 ", key=b"\xff\xfe", timestamp=3)
        (letter,) = driver.topic("test.dead-letters").read_raw()
        assert (letter.key, letter.value, letter.timestamp) == (b"\xff\xfe", b" 7 ", 3)
        driver.topic("n").pipe_raw(None, key=b"k")
        assert driver.topic("out").read_key_values() == [("k", None)]


def test_reports_describe_the_last_record() -> None:
    with TestDriver(copy_app()) as driver:
        driver.topic("n").pipe(1, timestamp=7)
        (report,) = driver.reports
        assert (report.records_in, report.records_out, report.stream_time, report.dropped) == (1, 1, 7, {})


def test_a_topic_is_read_with_its_declared_serdes() -> None:
    app = App("test")
    app.stream("n", value=int).map(lambda n: (n, str(n))).to("typed", key=int, value=str)
    app.stream("m", value=int).to(lambda _: "computed")
    with TestDriver(app) as driver:
        driver.topic("n").pipe(1)
        driver.topic("m").pipe(1, key="1")
        assert driver.topic("typed").read_key_values() == [(1, "1")]
        assert driver.topic("computed").read_key_values() == [("1", 1)]


def test_records_get_the_partitions_that_kafka_assigns() -> None:
    with TestDriver(copy_app(), partitions=4) as driver:
        driver.topic("n").pipe_pairs([("a", 1), ("b", 2), ("c", 3), ("d", 4)])
        partitions = {record.key: record.partition for record in driver.topic("out").read()}
        assert partitions == {record.key: record.partition for record in driver.topic("n").read()}
        assert len(set(partitions.values())) > 1


@pytest.mark.parametrize("verb", ["pipe", "read"])
def test_the_error_for_an_unknown_topic_names_it(verb: str) -> None:
    with TestDriver(copy_app()) as driver, pytest.raises(UnknownTopicError, match="nowhere"):
        driver.topic("nowhere").pipe(1) if verb == "pipe" else driver.topic("nowhere").read()


def test_the_error_for_an_unknown_table_lists_the_tables() -> None:
    app = App("test")
    app.stream("n").group_by_key().count(name="seen")
    with TestDriver(app) as driver:
        assert driver.table("seen").get("k", 0) == 0
        with pytest.raises(UnknownTableError, match="app 'test' has no table 'gone'; its tables: seen"):
            driver.table("gone")


def test_drivers_of_one_app_are_independent_and_delete_their_directories() -> None:
    app = App("test")
    app.stream("n").group_by_key().count(name="seen")
    with TestDriver(app) as first, TestDriver(app) as second:
        first.topic("n").pipe(1, key="k")
        assert (first.table("seen").get("k"), second.table("seen").get("k")) == (1, None)
        directories = [first._directory, second._directory]
        assert all(directory.exists() for directory in directories)
    assert not any(directory.exists() for directory in directories)


def test_the_data_directory_of_the_app_is_not_used(tmp_path: Path) -> None:
    app = App("test", data_dir=tmp_path / "data", config=Config(partitions=7))
    app.stream("n").to("out")
    with TestDriver(app) as driver:
        driver.topic("n").pipe(1)
    assert not (tmp_path / "data").exists()
