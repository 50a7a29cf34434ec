"""Windowed keys of Kafka Streams and ours: the same bytes, in the same partitions."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest
from tests.kafka.conftest import Read, settle
from tests.kafka.java_programs import java, running
from tests.kafka.running import run_to_end
from tests.waiting import wait_until

from millstream import App, Config, Windowed, session, session_windowed, time_windowed, tumbling
from millstream.broker import TopicConfig
from millstream.foundation.partitioning import partition_of
from millstream.kafka import KafkaBroker
from millstream.serdes import INT64
from millstream.testing.kafka import Cluster
from millstream.windows import FOREVER

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(180)]

MINUTE = 60_000
KEYS = [f"k{number}" for number in range(9)]


def test_the_bytes_are_those_of_the_java_serializers(classes: Path) -> None:
    windows = [("", 0, MINUTE), ("ann", MINUTE, 2 * MINUTE), ("ключ", 1 << 40, (1 << 40) + MINUTE), ("k", 5, FOREVER)]
    lines = java(classes, "WindowedKeys", "encode", *(str(part) for window in windows for part in window))
    written = [base64.b64decode(line) for line in lines]
    ours = [
        serde.encode(Windowed(*window)) for window in windows for serde in (time_windowed(str), session_windowed(str))
    ]
    assert written == ours


def test_the_java_deserializers_read_our_bytes(classes: Path) -> None:
    windows = [Windowed("ann", MINUTE, 2 * MINUTE), Windowed("ключ", 1 << 40, (1 << 40) + MINUTE)]
    keys = [serde.encode(window) for window in windows for serde in (time_windowed(str), session_windowed(str))]
    lines = java(classes, "WindowedKeys", "decode", *(base64.b64encode(key).decode() for key in keys))
    assert lines == [f"{window.key} {window.start} {window.end}" for window in windows for _ in range(2)]


@pytest.mark.parametrize("kind", ["time", "session"])
def test_kafka_streams_reads_our_windows_and_we_read_its_windows(
    classes: Path, cluster: Cluster, kafka: KafkaBroker, name: str, tmp_path: Path, read: Read, kind: str
) -> None:
    for topic in ("in", "java", "ours", "joined", "both"):
        kafka.create_topic(f"{name}-{topic}", TopicConfig(partitions=3))
    with App("feeder", broker=cluster.url).producer(value=str) as producer:
        for number in range(27):
            producer.send(f"{name}-in", "x", key=KEYS[number % 9], timestamp=MINUTE * (number // 9) + 10)
    first = 10 if kind == "session" else 0
    expected = {(key, first + minute * MINUTE) for key in KEYS for minute in range(3)}
    windows = session(gap="1 s") if kind == "session" else tumbling("1 min")
    keys = session_windowed(str) if kind == "session" else time_windowed(str, size="1 min")
    with running(classes, "WindowedKeys", "count", cluster.bootstrap, name, kind, str(tmp_path / "java")):
        wait_until(lambda: records(kafka, f"{name}-java") >= 27)
        app = App(name, broker=cluster.url, data_dir=tmp_path / "ours", config=Config(partitions=3))
        counts = app.stream(f"{name}-in", value=str).group_by_key().windowed_by(windows).count(name="counts")
        counts.to_stream().to(f"{name}-ours", value=INT64)
        run_to_end(app, kafka)
        wait_until(lambda: records(kafka, f"{name}-joined") >= 27)
    joined = [value for partition in range(3) for _, value in read(f"{name}-joined", partition)]
    assert sorted(joined) == sorted(f"{key}@{start}:1=1" for key, start in expected)

    for topic in (f"{name}-java", f"{name}-ours"):
        with App("reader", broker=cluster.url).consumer(
            topics=topic, key=keys, value=INT64, stop_at_end=True
        ) as reader:
            results = list(reader)
        assert {(record.key.key, record.key.start) for record in results} == expected
        assert all(record.partition == partition_of(record.key.key.encode(), 3) for record in results)
        assert {record.key.end - record.key.start for record in results} == {0 if kind == "session" else MINUTE}

    both = App(f"{name}-both", broker=cluster.url, data_dir=tmp_path / "both", config=Config(partitions=3))
    theirs = both.table(f"{name}-java", key=keys, value=INT64)
    both.stream(f"{name}-ours", key=keys, value=INT64).join(theirs, lambda n, m: n + m).to(f"{name}-both")
    run_to_end(both, kafka)
    settle(kafka, cluster.bootstrap, f"{name}-both")
    assert [value for partition in range(3) for _, value in read(f"{name}-both", partition)] == ["2"] * 27


def records(kafka: KafkaBroker, topic: str) -> int:
    return sum(
        1
        for partition, there in enumerate(kafka.offsets(topic))
        for chunk in kafka.read(topic, partition, there.begin, there.end)
        for _ in chunk.offsets
    )
