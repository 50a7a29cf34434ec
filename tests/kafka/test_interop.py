"""Interoperability with the Java tools and libraries on the same topics."""

from __future__ import annotations

import base64
import random
from pathlib import Path

import pytest
from tests.kafka.conftest import Read, settle
from tests.kafka.java_programs import java, running
from tests.kafka.running import run_to_end
from tests.waiting import wait_until

from millstream import App, Config
from millstream.broker import TopicConfig
from millstream.foundation.partitioning import murmur2, partition_of, partitions_of
from millstream.kafka import KafkaBroker
from millstream.testing.kafka import Cluster, run_java

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(180)]


def test_murmur2_equals_the_java_client(classes: Path) -> None:
    seed = random.randrange(1_000_000)
    print(f"seed {seed}")
    chance = random.Random(seed)
    keys = [chance.randbytes(length) for length in (*range(34), 100, 255)] + ["ключ".encode(), b"\0", b"\xff" * 7]
    hashes = java(classes, "Interop", "murmur2", *(base64.b64encode(key).decode() for key in keys))
    assert [int(line) & 0xFFFFFFFF for line in hashes] == [murmur2(key) for key in keys]
    assert list(partitions_of(keys * 3, 7)) == [partition_of(key, 7) for key in keys * 3]


def test_a_java_producer_chooses_the_same_partitions(
    classes: Path, cluster: Cluster, kafka: KafkaBroker, name: str
) -> None:
    kafka.create_topic(name, TopicConfig(partitions=5))
    partitions = java(classes, "Interop", "produce", cluster.bootstrap, name, "40")
    assert [int(line) for line in partitions] == [partition_of(f"k{number}".encode(), 5) for number in range(40)]
    app = App("reader", broker=cluster.url)
    with app.consumer(topics=[name], stop_at_end=True) as consumer:
        records = {record.key: record for record in consumer}
    assert len(records) == 40
    assert (records["k7"].value, records["k7"].timestamp, records["k7"].headers) == ("v7", 1007, (("number", b"7"),))


def test_the_console_consumer_reads_what_an_app_has_committed(
    cluster: Cluster, kafka: KafkaBroker, name: str, tmp_path: Path
) -> None:
    _shout(cluster, kafka, name, tmp_path)
    options = ["--bootstrap-server", cluster.bootstrap, "--topic", f"{name}-out", "--from-beginning"]
    options += ["--max-messages", "3", "--timeout-ms", "60000"]
    options += ["--isolation-level", "read_committed", "--formatter-property", "print.key=true"]
    lines = run_java("org.apache.kafka.tools.consumer.ConsoleConsumer", *options).splitlines()
    assert sorted(lines) == ['a\t"X"', 'b\t"Y"', 'c\t"Z"']


def test_kafka_streams_joins_the_output_of_an_app_with_a_topic_of_its_producer(
    classes: Path, cluster: Cluster, kafka: KafkaBroker, name: str, tmp_path: Path, read: Read
) -> None:
    kafka.create_topic(f"{name}-table", TopicConfig(partitions=3))
    kafka.create_topic(f"{name}-joined", TopicConfig(partitions=1))
    with App("feeder", broker=cluster.url).producer(value=str) as producer:
        for key in "abc":
            producer.send(f"{name}-table", f"t{key}", key=key, timestamp=1)
    _shout(cluster, kafka, name, tmp_path)
    arguments = [cluster.bootstrap, f"{name}-streams", f"{name}-out", f"{name}-table", f"{name}-joined"]
    with running(classes, "Interop", "join", *arguments):
        wait_until(lambda: kafka.offsets(f"{name}-joined")[0].end >= 3)
    assert sorted(value for _, value in read(f"{name}-joined")) == ['"X"+ta', '"Y"+tb', '"Z"+tc']


def _shout(cluster: Cluster, kafka: KafkaBroker, name: str, directory: Path) -> None:
    """Run an app that writes three records to ``NAME-out``, which has as many partitions as ``NAME-table``."""
    for topic in ("in", "out"):
        kafka.create_topic(f"{name}-{topic}", TopicConfig(partitions=3))
    app = App(name, broker=cluster.url, data_dir=directory, config=Config(partitions=3))
    app.stream(f"{name}-in", value=str).map_values(str.upper).to(f"{name}-out")
    with app.producer(value=str) as producer:
        for key, value in zip("abc", "xyz", strict=True):
            producer.send(f"{name}-in", value, key=key, timestamp=2)
    run_to_end(app, kafka)
    settle(kafka, cluster.bootstrap, f"{name}-out")
