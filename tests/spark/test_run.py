"""Apps on Spark: results, restarts, execution modes."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

import msgspec
import pytest
from tests.spark.apps import Ride, levels, minutes, people, prices, rides, words
from tests.spark.conftest import Feed, Read

from millstream import App, Config, Windowed
from millstream.broker import Output, TopicConfig
from millstream.foundation.blocks import block_of
from millstream.foundation.storage import close_environments
from millstream.log import EmbeddedLog

pytestmark = pytest.mark.spark

LINES = [b"a b a", b"c", b"b a"] * 40


def test_counts_are_in_the_table_and_in_the_topic(tmp_path: Path, feed: Feed, read: Read) -> None:
    words.data_dir = tmp_path
    feed(words, "lines", LINES)

    words.run("caught-up")

    expected = {"a": 120, "b": 80, "c": 40}
    assert dict(words.tables["words"].items()) == expected
    assert words.tables["words"]["a"] == 120
    assert {key: int(value) for key, value in read(words, "word-counts")} == expected


def test_a_second_run_continues_after_the_first(tmp_path: Path, feed: Feed) -> None:
    words.data_dir = tmp_path
    feed(words, "lines", LINES)
    words.run("caught-up")
    feed(words, "lines", [b"a z"])

    words.run("caught-up")

    assert dict(words.tables["words"].items()) == {"a": 121, "b": 80, "c": 40, "z": 1}


def test_an_app_whose_state_was_deleted_publishes_again(tmp_path: Path, feed: Feed, read: Read) -> None:
    words.data_dir = tmp_path
    feed(words, "lines", [b"a"])
    words.run("caught-up")
    close_environments(tmp_path)
    shutil.rmtree(tmp_path / "apps" / "words")

    words.run("caught-up")

    assert read(words, "word-counts") == [("a", b"1"), ("a", b"1")]


@pytest.mark.parametrize("small_batch_records", [0, 1_000_000], ids=["parallel", "single"])
@pytest.mark.parametrize("max_batch_records", [7, 1_000_000])
def test_execution_modes_and_batch_boundaries_do_not_change_results(
    tmp_path: Path, feed: Feed, read: Read, small_batch_records: int, max_batch_records: int
) -> None:
    levels.data_dir = tmp_path
    levels.config = Config(
        partitions=2, caching=False, small_batch_records=small_batch_records, max_batch_records=max_batch_records
    )
    feed(levels, "lines", LINES[:30])

    levels.run("caught-up")

    counts = Counter(word for line in LINES[:30] for word in line.decode().split())
    reached = Counter(number for total in counts.values() for number in range(1, total + 1))
    assert dict(levels.tables["counts"].items()) == counts
    assert dict(levels.tables["reached"].items()) == reached
    updates = [(int(key or ""), int(value)) for key, value in read(levels, "reached-counts")]
    assert sorted(updates) == sorted((key, n) for key, total in reached.items() for n in range(1, total + 1))


def test_typed_values_are_objects_again_in_the_next_stage(tmp_path: Path, feed: Feed) -> None:
    rides.data_dir = tmp_path
    feed(rides, "rides", [msgspec.json.encode(Ride(zone, amount)) for zone, amount in [(1, 5.0), (2, 1.0), (1, 9.5)]])

    rides.run("caught-up")

    assert dict(rides.tables["best"].items()) == {1: Ride(1, 9.5), 2: Ride(2, 1.0)}


def test_an_app_that_is_not_a_variable_of_a_module_is_sent_to_the_workers(
    tmp_path: Path, feed: Feed, read: Read
) -> None:
    app = App("local", data_dir=tmp_path, config=Config(partitions=2))
    factor = 3
    app.stream("numbers", value=int).map_values(lambda n: n * factor).to("tripled")
    feed(app, "numbers", [b"1", b"2"])

    app.run("caught-up")

    assert sorted(value for _, value in read(app, "tripled")) == [b"3", b"6"]


def test_a_background_run_wakes_on_records_and_stops(tmp_path: Path, feed: Feed) -> None:
    words.data_dir = tmp_path
    run = words.start()
    feed(words, "lines", [b"hello"])
    with words.consumer(topics=["word-counts"]) as consumer:
        assert [record.key for record in consumer.poll(timeout=60)] == ["hello"]

    words.stop()

    assert not run.is_alive
    assert words.tables["words"]["hello"] == 1


@pytest.mark.parametrize("caching", [True, False])
def test_batch_boundaries_do_not_change_windows(tmp_path: Path, feed: Feed, read: Read, caching: bool) -> None:
    minutes.data_dir = tmp_path
    minutes.config = Config(partitions=2, caching=caching, small_batch_records=20, max_batch_records=60)
    rides = [Ride(number % 3, float(number * 7 % 200)) for number in range(300)]
    feed(minutes, "rides", [msgspec.json.encode(ride) for ride in rides])

    minutes.run("caught-up")

    expected = Counter(
        Windowed(ride.zone, start, start + 20)
        for ride in rides
        for start in range(max(0, int(ride.amount) - 10) // 10 * 10, int(ride.amount) + 1, 10)
    )
    assert dict(minutes.tables["rides_per_window"].items()) == expected
    last = {msgspec.json.decode(key or "", type=Windowed): int(value) for key, value in read(minutes, "window-counts")}
    assert last == expected


@pytest.mark.parametrize("caching", [True, False])
def test_batch_boundaries_do_not_change_joined_and_grouped_tables(tmp_path: Path, caching: bool) -> None:
    people.data_dir = tmp_path
    people.config = Config(partitions=2, caching=caching, small_batch_records=10, max_batch_records=25)
    names = [(f"u{n % 20}", f"name{n}" if n % 7 else None) for n in range(100)]
    cities = [(f"u{n * 3 % 20}", f"city{n % 4}" if n % 5 else None) for n in range(100)]
    people.start("caught-up").wait()  # creates the topics
    with people.producer(value=str) as producer:
        for topic, rows in (("names", names), ("cities", cities)):
            for key, value in rows:
                producer.send(topic, value, key=key)

    people.run("caught-up")

    named = {key: value for key, value in dict(names).items() if value is not None}
    housed = {key: value for key, value in dict(cities).items() if value is not None}
    assert dict(people.tables["descriptions"].items()) == {k: f"{v} of {housed.get(k)}" for k, v in named.items()}
    counted = {city: count for city, count in people.tables["people_per_city"].items() if count}
    assert counted == Counter(housed.values())


@pytest.mark.parametrize("small_batch_records", [0, 1_000_000], ids=["parallel", "single"])
def test_every_task_sees_all_rows_of_a_global_table(
    tmp_path: Path, feed: Feed, read: Read, small_batch_records: int
) -> None:
    prices.data_dir = tmp_path
    prices.config = Config(partitions=2, small_batch_records=small_batch_records)
    with EmbeddedLog(tmp_path) as log:
        log.create_topic("rates", TopicConfig(partitions=3))
        log.append([Output("rates", 1, block_of([b"a", b"b", b"a"], [b"1", b"2", b"3"], [0, 0, 0]))])
    feed(prices, "sales", [f"s{number} {'ab'[number % 2]}".encode() for number in range(20)])

    prices.run("caught-up")

    expected = [f"s{number} {'ab'[number % 2]} {'32'[number % 2]}" for number in range(20)]
    assert sorted(msgspec.json.decode(value) for _, value in read(prices, "bills")) == sorted(expected)
    assert dict(prices.tables["rates"].items()) == {"a": "3", "b": "2"}

    with EmbeddedLog(tmp_path) as log:
        log.append([Output("rates", 1, block_of([b"a"], [None], [0]))])
    prices.run("caught-up")
    assert dict(prices.tables["rates"].items()) == {"b": "2"}
