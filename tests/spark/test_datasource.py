"""Topics and tables as DataFrames: read, streamed, written, joined with files."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from tests.spark.apps import minutes, words
from tests.spark.conftest import Feed, Read
from tests.waiting import wait_until

from millstream import Config
from millstream.broker import Output, TopicConfig
from millstream.foundation.blocks import block_of
from millstream.log import EmbeddedLog

pytestmark = [pytest.mark.spark, pytest.mark.timeout(240)]

TIMES = [1_000, 2_000, 3_000, 4_000, 5_000]


@pytest.fixture
def spark(tmp_path: Path) -> SparkSession:
    words.data_dir, words.config = tmp_path, Config(partitions=2)
    return words.spark


@pytest.fixture
def log(tmp_path: Path) -> Iterator[EmbeddedLog]:
    """A topic "rides" with five rides in each of two partitions."""
    with EmbeddedLog(tmp_path) as log:
        log.create_topic("rides", TopicConfig(partitions=2))
        for partition in range(2):
            values = [json.dumps({"zone": n, "amount": n * 1.5}).encode() for n in range(5)]
            headers = [(("h", b"1"),) if n == 0 else () for n in range(5)]
            log.append([Output("rides", partition, block_of([b"k%d" % partition] * 5, values, TIMES, headers))])
        yield log


Load = Callable[..., DataFrame]


@pytest.fixture
def load(spark: SparkSession, log: EmbeddedLog, tmp_path: Path) -> Load:
    def load(schema: str | None = None, **options: Any) -> DataFrame:
        reader = spark.read.format("millstream").options(data_dir=str(tmp_path), topic="rides", **options)
        return (reader if schema is None else reader.schema(schema)).load()

    return load


def test_raw_records(load: Load) -> None:
    rows = load().orderBy("partition", "offset").collect()
    assert len(rows) == 10
    first = rows[0]
    assert (bytes(first.key), json.loads(bytes(first.value))) == (b"k0", {"zone": 0, "amount": 0.0})
    assert (first.partition, first.offset, first.timestamp.timestamp()) == (0, 0, 1.0)
    assert [(header.name, bytes(header.value)) for header in first.headers] == [("h", b"1")]
    assert rows[1].headers in (None, [])


def test_values_decoded_by_a_schema_with_metadata_columns(load: Load) -> None:
    rows = load("zone INT, amount DOUBLE, missing STRING, _key STRING, _offset BIGINT").where("zone = 3").collect()
    assert [tuple(row) for row in rows] == [(3, 4.5, None, f"k{row._key[1]}", 3) for row in rows]
    assert {row._key for row in rows} == {"k0", "k1"}


@pytest.mark.parametrize(
    ("options", "offsets"),
    [
        ({"start_offset": 3}, [3, 4, 3, 4]),
        ({"start_offset": '{"0": 4}', "stop_offset": '{"1": 1}'}, [4, 0]),
        ({"start_time": 2_000, "stop_time": 4_000}, [1, 2, 1, 2]),
        ({"start_time": "1970-01-01T00:00:05Z"}, [4, 4]),
        ({"stop_offset": 99, "start_offset": 5}, []),
    ],
)
def test_ranges_by_offset_and_by_time(load: Load, options: dict[str, Any], offsets: list[int]) -> None:
    assert [row.offset for row in load(**options).orderBy("partition", "offset").collect()] == offsets


def test_a_record_that_does_not_fit_the_schema_fails_or_is_skipped(load: Load, log: EmbeddedLog) -> None:
    log.append([Output("rides", 0, block_of([None], [b"{oops"], [6_000]))])
    with pytest.raises(PySparkException, match=r"record rides\[0\]@5 does not fit the schema"):
        load("zone INT").collect()
    assert load("zone INT", on_error="skip").count() == 10


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"topic": "rides", "tpic": "x"}, "has no option 'tpic'"),
        ({}, "needs a topic or a table"),
        ({"table": "words"}, "needs a topic or a table"),
        ({"topic": "nope"}, "there is no topic 'nope'"),
        ({"topic": "rides", "start_time": "soonish"}, "is not a time"),
    ],
)
def test_invalid_options_are_rejected(
    spark: SparkSession, log: EmbeddedLog, tmp_path: Path, options: dict[str, str], message: str
) -> None:
    reader = spark.read.format("millstream").option("data_dir", str(tmp_path)).options(**options)
    with pytest.raises(PySparkException, match=message):
        reader.load().count()


def test_the_table_of_a_running_app_joined_with_a_parquet_file(spark: SparkSession, tmp_path: Path, feed: Feed) -> None:
    names = str(tmp_path / "names.parquet")
    spark.createDataFrame([("a", "alpha"), ("b", "beta")], "word STRING, name STRING").write.parquet(names)
    feed(words, "lines", [b"a b", b"a", b"c"])
    words.start()
    with words.consumer(topics=["word-counts"]) as consumer:
        seen: set[str] = set()
        while seen != {"a", "b", "c"}:
            seen |= {record.key for record in consumer.poll(timeout=60)}

        wait_until(lambda: len(list(words.tables["words"].scan())) == 3)  # a commit may be up to 0.1 s after the output
        words.frames().option("table", "words").load().createOrReplaceTempView("words")
        spark.read.parquet(names).createOrReplaceTempView("names")
        rows = spark.sql("SELECT name, value FROM words JOIN names ON key = word ORDER BY name").collect()

    words.stop()
    assert [tuple(row) for row in rows] == [("alpha", 2), ("beta", 1)]


def test_a_windowed_table_has_window_bounds(spark: SparkSession, tmp_path: Path, feed: Feed) -> None:
    minutes.data_dir, minutes.config = tmp_path, Config(partitions=2)
    feed(minutes, "rides", [b'{"zone":1,"amount":15.0}', b'{"zone":1,"amount":18.0}'])
    minutes.run("caught-up")
    rows = minutes.frames().option("table", "rides_per_window").load().orderBy("window_start").collect()
    assert [(row.key, row.value, row.window_start.timestamp(), row.window_end.timestamp()) for row in rows] == [
        (1, 2, 0.0, 0.02),
        (1, 2, 0.01, 0.03),
    ]


def test_a_batch_is_written_by_key_and_read_back(
    spark: SparkSession, log: EmbeddedLog, load: Load, tmp_path: Path
) -> None:
    log.create_topic("copies", TopicConfig(partitions=3))
    load().write.format("millstream").options(data_dir=str(tmp_path), topic="copies").mode("append").save()
    copies = spark.read.format("millstream").options(data_dir=str(tmp_path), topic="copies").load()
    key = ["key", "value", "timestamp", "headers"]
    assert sorted(map(str, copies.select(key).collect())) == sorted(map(str, load().select(key).collect()))
    assert copies.select("key", "partition").distinct().count() == 2, "all records of a key are in one partition"


def test_a_topic_cannot_be_overwritten(log: EmbeddedLog, load: Load, tmp_path: Path) -> None:
    writer = load().write.format("millstream").options(data_dir=str(tmp_path), topic="rides")
    with pytest.raises(PySparkException, match="cannot be overwritten"):
        writer.mode("overwrite").save()


def test_structured_streaming_reads_a_topic_and_writes_to_one_exactly_once(
    spark: SparkSession, log: EmbeddedLog, tmp_path: Path, read: Read
) -> None:
    log.create_topic("zones", TopicConfig(partitions=1))

    def run_query() -> None:
        stream = spark.readStream.format("millstream").options(data_dir=str(tmp_path), topic="rides", max_records=4)
        rides = stream.schema("zone INT, amount DOUBLE, _key STRING").load().where("zone >= 3")
        written = rides.writeStream.format("millstream").options(data_dir=str(tmp_path), topic="zones")
        query = written.option("checkpointLocation", str(tmp_path / "query")).trigger(availableNow=True).start()
        query.awaitTermination()

    run_query()
    assert sorted((key, json.loads(value)["zone"]) for key, value in read(words, "zones")) == [
        ("k0", 3), ("k0", 4), ("k1", 3), ("k1", 4),
    ]  # fmt: skip
    log.append([Output("rides", 0, block_of([b"new"], [b'{"zone": 9, "amount": 1.0}'], [7_000]))])
    run_query()
    commits = sorted((tmp_path / "query" / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
    for path in commits[-1].parent.glob(f"*{commits[-1].name}*"):
        path.unlink()  # as if Spark had died after the write and before its own note
    run_query()
    assert [key for key, _ in read(words, "zones")].count("new") == 1
    assert len(read(words, "zones")) == 5


def test_backfill_writes_rows_in_the_order_of_their_time(spark: SparkSession, tmp_path: Path) -> None:
    rows = [(f"z{n % 3}", float(n), n * 7 % 20 * 1000) for n in range(20)]
    frame = spark.createDataFrame(rows, "zone STRING, amount DOUBLE, at BIGINT").repartition(4)
    words.backfill(frame, topic="past", key="zone", timestamp="at")
    with EmbeddedLog(tmp_path) as log:
        rows_read = 0
        for partition, offsets in enumerate(log.offsets("past")):
            times = [t for c in log.read("past", partition, 0, offsets.end) for t in c.block.column(2).to_pylist()]
            assert times == sorted(times)
            rows_read += len(times)
    assert rows_read == 20
