"""Share groups of both brokers: a test with the fixture ``queue`` runs on the embedded log and on Kafka.

The cases are those of Kafka's ``ShareConsumerTest`` (4.3.1); a test has the name of its case there.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from millstream.broker import Broker, Output, TopicConfig
from millstream.foundation.blocks import block_of
from millstream.kafka import KafkaBroker
from millstream.log import EmbeddedLog
from millstream.queues.share_consumer import ShareConsumer
from millstream.records import Headers, Record
from millstream.testing.kafka import Cluster, NoKafkaError, kafka_jars

SECONDS = 30.0
_numbers = count()
_PROPERTIES = {
    "share.coordinator.state.topic.replication.factor": 1,
    "share.coordinator.state.topic.min.isr": 1,
    "share.coordinator.state.topic.num.partitions": 1,
    "group.share.min.record.lock.duration.ms": 1_000,
    "group.share.min.heartbeat.interval.ms": 100,
    "group.share.heartbeat.interval.ms": 100,
    "group.share.min.session.timeout.ms": 1_000,
    "group.share.assignment.interval.ms": 0,
    "group.share.min.assignment.interval.ms": 0,
}


class Queue:
    """A topic with one partition on a broker, and consumers of its share groups."""

    def __init__(self, broker: Broker, *, lock: str, quiet: float) -> None:
        self.broker = broker
        self.lock = lock
        """The shortest lock that the broker allows."""
        self.quiet = quiet
        """How long to wait for records that must not come."""
        self.topic = f"jobs-{next(_numbers)}"
        self.group = f"{self.topic}-group"
        self._consumers: list[ShareConsumer[Any, Any]] = []
        broker.create_topic(self.topic, TopicConfig(partitions=1))

    @property
    def is_kafka(self) -> bool:
        return isinstance(self.broker, KafkaBroker)

    def create(self, topic: str | None = None, partitions: int = 1) -> str:
        name = topic or f"jobs-{next(_numbers)}"
        self.broker.create_topic(name, TopicConfig(partitions=partitions))
        return name

    def send(
        self, *values: str, topic: str | None = None, times: list[int] | None = None, headers: Headers = ()
    ) -> None:
        block = block_of(
            [None] * len(values), [v.encode() for v in values], times or [0] * len(values), [headers] * len(values)
        )
        self.broker.append([Output(topic or self.topic, 0, block)])

    def send_many(self, number: int, topic: str | None = None) -> None:
        self.send(*map(str, range(number)), topic=topic)

    def join(self, group: str | None = None, **options: Any) -> ShareConsumer[Any, Any]:
        defaults: dict[str, Any] = {"topics": self.topic, "value": str, "start": "earliest"}
        consumer = ShareConsumer(self.broker, group or self.group, **{**defaults, **options})
        self._consumers.append(consumer)
        return consumer

    def take(self, consumer: ShareConsumer[Any, Any], number: int = 1, **options: Any) -> list[Record[Any, Any]]:
        """Poll until there are records, and return them; fail unless their number is right."""
        deadline = monotonic() + SECONDS
        records: list[Record[Any, Any]] = []
        while not records and monotonic() < deadline:
            records = consumer.poll(timeout=1.0, **options)
        assert len(records) == number, records
        return records

    def take_all(self, consumer: ShareConsumer[Any, Any], number: int, **options: Any) -> list[Record[Any, Any]]:
        """Poll and accept until that many records have come."""
        deadline = monotonic() + SECONDS
        records: list[Record[Any, Any]] = []
        while len(records) < number and monotonic() < deadline:
            batch = consumer.poll(timeout=1.0, **options)
            for record in batch:
                consumer.accept(record)
            records += batch
        consumer.commit()
        assert len(records) == number
        return records

    def is_empty(self, consumer: ShareConsumer[Any, Any]) -> bool:
        return consumer.poll(timeout=self.quiet) == []

    def letters(self, group: str | None = None) -> list[Record[Any, Any]]:
        topic = f"{group or self.group}.dead-letters"
        if topic not in self.broker.topic_names():
            return []
        consumer = ShareConsumer(self.broker, f"letters-{next(_numbers)}", topics=topic, value=str, start="earliest")
        with consumer:
            return list(consumer.poll(timeout=self.quiet))

    def close(self) -> None:
        for consumer in self._consumers:
            consumer.close()


class Clock:
    """A clock that stands still until a test moves it."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def log_queue(tmp_path: Path, clock: Clock) -> Iterator[Queue]:
    """A queue on the embedded log whose locks end only when the test moves the clock."""
    with EmbeddedLog(tmp_path, clock=clock) as log:
        queue = Queue(log, lock="15 s", quiet=0)
        yield queue
        queue.close()


@pytest.fixture(scope="session")
def share_cluster() -> Iterator[Cluster]:
    try:
        kafka_jars()
    except NoKafkaError as error:
        pytest.skip(f"no Kafka on this machine: {error}")
    with Cluster(properties=_PROPERTIES) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def share_broker(share_cluster: Cluster) -> Iterator[KafkaBroker]:
    with KafkaBroker(share_cluster.url) as broker:
        yield broker


@pytest.fixture
def kafka_queue(share_broker: KafkaBroker) -> Iterator[Queue]:
    """A queue on Kafka; its tests need the marker ``kafka``."""
    queue = Queue(share_broker, lock="1 s", quiet=0.6)
    yield queue
    queue.close()


@pytest.fixture(
    params=["log", pytest.param("kafka", marks=[pytest.mark.kafka, pytest.mark.xdist_group("kafka share groups")])]
)
def queue(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Queue]:
    if request.param == "log":
        with EmbeddedLog(tmp_path) as log:
            queue = Queue(log, lock="1 s", quiet=0)
            yield queue
            queue.close()
        return
    queue = Queue(request.getfixturevalue("share_broker"), lock="1 s", quiet=0.6)
    yield queue
    queue.close()
