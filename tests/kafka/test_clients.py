"""Producer, consumer and the command line, with Kafka instead of the embedded log."""

from __future__ import annotations

import gc
import logging
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.kafka.conftest import settle
from tests.waiting import wait_until

from millstream import App
from millstream.broker import Output
from millstream.cli.main import root
from millstream.errors import UnknownTopicError
from millstream.foundation.blocks import block_of
from millstream.kafka import KafkaBroker
from millstream.producer import Delivery
from millstream.testing.kafka import Cluster


def test_an_apps_producer_and_consumer(cluster: Cluster, topic: str, tmp_path: Path) -> None:
    app = App("clients", broker=cluster.url, data_dir=tmp_path)
    deliveries: list[Delivery] = []
    with app.producer() as producer:
        producer.send(topic, {"n": 1}, key="k", timestamp=1_000, headers={"h": "x"}, on_delivery=deliveries.append)
        producer.send(topic, None, key="k", timestamp=2_000)
    (delivery,) = deliveries
    assert delivery.error is None
    assert delivery.offset == 0
    with app.consumer(topics=[topic], stop_at_end=True) as consumer:
        records = list(consumer)
    assert [(record.key, record.value, record.timestamp, record.headers) for record in records] == [
        ("k", {"n": 1}, 1_000, (("h", b"x"),)),
        ("k", None, 2_000, ()),
    ]
    with app.consumer(topics=[topic], stop_at_end=True) as consumer:
        consumer.seek(topic, records[0].partition, datetime.fromtimestamp(2, UTC))
        assert [record.value for record in consumer] == [None]


def test_a_named_producer_appends_exactly_once(
    cluster: Cluster, kafka: KafkaBroker, topic: str, tmp_path: Path
) -> None:
    app = App("clients", broker=cluster.url, data_dir=tmp_path)
    with app.producer(name=topic) as producer:
        for number in range(3):
            producer.send(topic, number, partition=0)
            producer.flush()
    settle(kafka, cluster.bootstrap, topic)
    assert sum(len(chunk.offsets) for chunk in kafka.read(topic, 0, 0, kafka.offsets(topic)[0].end)) == 3


def test_without_acknowledgement_no_offset_is_reported(cluster: Cluster, topic: str, tmp_path: Path) -> None:
    deliveries: list[Delivery] = []
    with App("clients", broker=cluster.url, data_dir=tmp_path).producer(acks="none") as producer:
        producer.send(topic, 1, on_delivery=deliveries.append)
    assert [delivery.offset for delivery in deliveries] == [None]


def test_the_commands_work_on_a_cluster(cluster: Cluster, name: str, tmp_path: Path) -> None:
    def run(*arguments: str, input: str | None = None) -> str:
        options = ["--broker", cluster.url, "--data-dir", str(tmp_path / "none")]
        result = CliRunner().invoke(root, [*arguments, *options], input=input)
        assert result.exit_code == 0, result.output
        return result.stdout

    run("topics", "create", name, "--partitions", "1")
    run("produce", name, "--key-separator", ":", input="a:1\nb:2\n")
    assert [line.split()[-1] for line in run("consume", name, "--from-beginning").splitlines()] == ["1", "2"]
    assert len(run("consume", name, "--from-beginning", "--group", name, "--max", "2").splitlines()) == 2
    assert name in run("topics", "list")
    assert "?" in run("topics", "describe", name)  # Kafka does not report sizes to clients
    assert name in run("groups", "list")
    assert name in run("groups", "describe", name)
    assert not (tmp_path / "none").exists()


def client_threads() -> int:
    """Count the native threads of Kafka clients in this process; each client has one main thread."""
    return sum(path.read_text() == "rdk:main\n" for path in Path("/proc/self/task").glob("*/comm"))


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux shows native threads")
def test_a_closed_broker_leaves_no_client_to_the_garbage_collector(
    cluster: Cluster, kafka: KafkaBroker, topic: str
) -> None:
    outputs = [Output(topic, 0, block_of([b"k"], [b"v"], [1]))]
    gc.disable()
    try:
        before = client_threads()
        with KafkaBroker(cluster.url) as broker:
            broker.append(outputs)
            broker.append_once(topic, 1, outputs)
            list(broker.read(topic, 0, 0, 1))
            with pytest.raises(UnknownTopicError):
                broker.offsets(f"{topic}-unknown")
            assert client_threads() > before
        del broker
        wait_until(lambda: client_threads() <= before)  # others may end meanwhile
    finally:
        gc.enable()


def test_an_unreachable_cluster_is_reported(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr("millstream.kafka.clients.REQUEST_SECONDS", 1.5)
    monkeypatch.setattr("millstream.kafka.clients._SILENT_SECONDS", 0.5)
    result = CliRunner().invoke(root, ["topics", "list", "--broker", "kafka://127.0.0.1:1"])
    assert result.exit_code != 0
    assert "no broker of '127.0.0.1:1' responds; check that Kafka is running there" in result.output
    (warning,) = [
        record
        for record in caplog.records
        if record.name == "millstream.kafka.clients" and record.levelno == logging.WARNING
    ]
    assert warning.getMessage().startswith("no broker of '127.0.0.1:1' responds yet; trying for ")
