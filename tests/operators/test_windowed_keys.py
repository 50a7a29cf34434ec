"""Windowed keys in topics: the format of Kafka Streams by default, routed by the inner key; JSON by name."""

from pathlib import Path
from typing import Any

import pytest
from tests.kafka.running import run_to_end

from millstream import (
    App,
    Config,
    Table,
    Windowed,
    hopping,
    session,
    session_windowed,
    sliding,
    time_windowed,
    tumbling,
    unlimited,
)  # fmt: skip
from millstream.broker import TopicConfig
from millstream.consumer import Consumer
from millstream.errors import DefinitionError, ProcessingError
from millstream.foundation.partitioning import partition_of
from millstream.log import EmbeddedLog
from millstream.producer import Producer
from millstream.serdes import INT64
from millstream.testing import TestDriver
from millstream.windows import Windows

MINUTE = 60_000
KEYS = [f"k{number}" for number in range(12)]


def counts(app: App, windows: Windows, **options: Any) -> Table:
    return app.stream("in", value=int, **options).group_by_key().windowed_by(windows).count(name="counts")


@pytest.mark.parametrize(
    ("windows", "raw", "key"),
    [
        (tumbling("1 min"), b"a" + MINUTE.to_bytes(8, "big"), Windowed("a", MINUTE, 2 * MINUTE)),
        (hopping("2 min", every="2 min"), b"a" + bytes(8), Windowed("a", 0, 2 * MINUTE)),
        (sliding("1 s"), b"a" + (MINUTE - 995).to_bytes(8, "big"), Windowed("a", MINUTE - 995, MINUTE + 5)),
        (unlimited(), b"a" + bytes(8), Windowed("a", 0, (1 << 63) - 1)),
        (session(gap="1 s"), b"a" + 2 * (MINUTE + 5).to_bytes(8, "big"), Windowed("a", MINUTE + 5, MINUTE + 5)),
    ],
)
def test_windowed_results_are_written_as_kafka_streams_writes_them(windows: Windows, raw: bytes, key: Windowed) -> None:
    app = App("test")
    counts(app, windows).to_stream().to("out")
    with TestDriver(app) as driver:
        driver.topic("in").pipe(1, key="a", timestamp=MINUTE + 5)
        assert [record.key for record in driver.topic("out").read_raw()] == [raw]
        driver.topic("in").pipe(1, key="b", timestamp=MINUTE + 5)
        assert driver.topic("out").read_key_values() == [(Windowed("b", key.start, key.end), 1)]


def test_the_declared_key_is_inside_the_windows() -> None:
    app = App("test")
    counts(app, tumbling("1 min"), key=INT64).to_stream().to("out")
    with TestDriver(app) as driver:
        driver.topic("in").pipe(1, key=17, timestamp=5)
        assert driver.topic("out").read_raw()[0].key == INT64.encode(17) + bytes(8)


def test_a_sink_after_windows_needs_no_size() -> None:
    app = App("test")
    counts(app, tumbling("1 min")).filter(lambda n: n > 0).to_stream().to("out", key=time_windowed(str))
    with TestDriver(app) as driver:
        driver.topic("in").pipe(1, key="a", timestamp=5)
        assert driver.topic("out").read_key_values() == [(Windowed("a", 0, MINUTE), 1)]


def test_json_is_written_by_name() -> None:
    app = App("test")
    counts(app, tumbling("1 min")).to_stream().to("out", key=Windowed)
    with TestDriver(app) as driver:
        driver.topic("in").pipe(1, key="a", timestamp=5)
        assert [record.key for record in driver.topic("out").read_raw()] == [b'{"key":"a","start":0,"end":60000}']


@pytest.mark.parametrize("windows", [tumbling("1 min"), session(gap="1 s")])
def test_results_are_in_the_partition_of_the_inner_key(windows: Windows) -> None:
    app = App("test")
    counts(app, windows).to_stream().to("out")
    with TestDriver(app, partitions=5) as driver:
        for number in range(36):
            driver.topic("in").pipe(1, key=KEYS[number % 12], timestamp=MINUTE * (number // 12))
        records = driver.topic("out").read()
    assert len(records) == 36
    assert {record.key.key: record.partition for record in records} == {
        key: partition_of(key.encode(), 5) for key in KEYS
    }


@pytest.mark.parametrize("windows", [tumbling("1 min"), session(gap="1 s")])
def test_columnar_batches_route_by_the_inner_key_too(tmp_path: Path, windows: Windows) -> None:
    app = App("test", data_dir=tmp_path, config=Config(partitions=5))
    counts(app, windows).to_stream().to("out")
    reading = session_windowed(str) if windows == session(gap="1 s") else time_windowed(str, size="1 min")
    with EmbeddedLog(tmp_path / "log", durability="os") as log:
        for topic in ("in", "out"):
            log.create_topic(topic, TopicConfig(partitions=5))
        with Producer(log) as producer:
            for number in range(1200):
                producer.send("in", number, key=KEYS[number % 12], timestamp=MINUTE * (number // 12))
        run_to_end(app, log)
        with Consumer(log, topics="out", key=reading, stop_at_end=True) as consumer:
            records = list(consumer)
    assert len(records) == 1200
    assert {record.partition for record in records} == set(range(5))
    assert all(record.partition == partition_of(record.key.key.encode(), 5) for record in records)


def test_windowed_results_join_a_table_of_windowed_keys_partition_by_partition() -> None:
    app = App("test")
    limits = app.table("limits", key=time_windowed(str, size="1 min"), value=int)
    counts(app, tumbling("1 min")).to_stream().join(limits, lambda n, limit: [n, limit]).to("out")
    with TestDriver(app, partitions=7) as driver:
        for key in KEYS:
            driver.topic("limits").pipe(int(key[1:]), key=Windowed(key, 0, MINUTE))
            driver.topic("in").pipe(1, key=key, timestamp=7)
        limits_read = driver.table("limits")
        assert limits_read[Windowed("k3", 0, MINUTE)] == 3
        assert driver.topic("out").read_map() == {Windowed(key, 0, MINUTE): [1, int(key[1:])] for key in KEYS}


def test_a_rekeyed_stream_joins_a_table_of_windowed_keys() -> None:
    app = App("test")
    limits = app.table("limits", key=time_windowed(str, size="1 min"), value=int)
    stream = app.stream("in", value=str).select_key(lambda key: Windowed(key, 0, MINUTE))
    stream.join(limits, lambda key, limit: f"{key}={limit}").to("out")
    with TestDriver(app, partitions=7) as driver:
        for key in KEYS:
            driver.topic("limits").pipe(int(key[1:]), key=Windowed(key, 0, MINUTE))
            driver.topic("in").pipe(key)
        assert sorted(driver.topic("out").read_values()) == sorted(f"{key}={int(key[1:])}" for key in KEYS)


def test_tables_derived_from_windows_are_read_by_their_windowed_keys() -> None:
    app = App("test")
    counts(app, tumbling("1 min")).map_values(lambda n: -n, name="negative")
    with TestDriver(app, partitions=7) as driver:
        for key in KEYS:
            driver.topic("in").pipe(1, key=key, timestamp=7)
        assert {key: driver.table("negative")[Windowed(key, 0, MINUTE)] for key in KEYS} == dict.fromkeys(KEYS, -1)


def test_keys_that_are_not_windows_are_errors_of_the_record() -> None:
    app = App("test")
    app.stream("in", value=int).to("out", key=time_windowed(str))
    with TestDriver(app) as driver, pytest.raises(ProcessingError, match="key 'a' is not windowed"):
        driver.topic("in").pipe(1, key="a")


def test_windowed_and_plain_keys_cannot_be_joined() -> None:
    app = App("test")
    limits: Any = app.table("limits", key=session_windowed(str))
    app.stream("in").join(limits, lambda left, right: [left, right]).to("out")
    with pytest.raises(DefinitionError, match="whose keys are str, with 'limits', whose keys are Windowed"):
        app.describe()
