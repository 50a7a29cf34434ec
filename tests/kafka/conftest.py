"""A real broker for all tests in this folder; without Kafka they are skipped with a reason."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from tests.kafka.certificates import Certificates
from tests.kafka.identity_provider import IdentityProvider
from tests.kafka.java_programs import compile_java
from tests.kafka.secure import secure_cluster

from millstream.broker import Output, TopicConfig
from millstream.foundation.blocks import block_of
from millstream.kafka import KafkaBroker
from millstream.testing.kafka import Cluster, NoKafkaError, kafka_jars

Send = Callable[..., int]
Read = Callable[..., list[tuple[int, str]]]
Transact = Callable[..., Producer]


@pytest.fixture(scope="session")
def artifacts() -> None:
    try:
        kafka_jars()
    except NoKafkaError as error:
        pytest.skip(f"no Kafka on this machine: {error}")


@pytest.fixture(scope="session")
def cluster(artifacts: None) -> Iterator[Cluster]:
    with Cluster() as cluster:
        yield cluster


@pytest.fixture(scope="session")
def kafka(cluster: Cluster) -> Iterator[KafkaBroker]:
    with KafkaBroker(cluster.url) as broker:
        yield broker


@pytest.fixture(scope="session")
def classes(artifacts: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The compiled Java programs."""
    return compile_java(tmp_path_factory.mktemp("classes"))


@pytest.fixture(scope="session")
def certificates(artifacts: None, tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="session")
def provider(certificates: Certificates) -> Iterator[IdentityProvider]:
    """An identity provider that the broker trusts."""
    with IdentityProvider(certificates) as provider:
        yield provider


@pytest.fixture(scope="session")
def secure(certificates: Certificates, provider: IdentityProvider) -> Iterator[Cluster]:
    """A broker with every kind of secure listener."""
    cluster = secure_cluster(certificates, provider)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JDK_JAVA_OPTIONS", f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={provider.keys_url}")
        cluster.start()
    yield cluster
    cluster.stop()


_numbers = count()


def settle(broker: KafkaBroker, bootstrap: str, *topics: str) -> None:
    """Wait until committed records can be read: Kafka acknowledges a commit shortly before readers see it."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for topic in topics:
        for partition, offsets in enumerate(broker.offsets(topic)):
            key = KafkaPartition(topic, partition)
            last = admin.list_offsets({key: OffsetSpec.latest()})[key].result().offset
            end = offsets.end
            while end < last:
                end = broker.offsets(topic)[partition].end


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A name that no other test uses, for topics and groups."""
    return f"{request.node.originalname[:60]}-{next(_numbers)}"


@pytest.fixture
def topic(kafka: KafkaBroker, name: str) -> str:
    kafka.create_topic(name, TopicConfig(partitions=2))
    return name


@pytest.fixture
def send(kafka: KafkaBroker) -> Send:
    """Append ``"key:value"`` texts as one block; a text without ``:`` has no key, ``"key:"`` is a tombstone."""

    def send(topic: str, *texts: str, partition: int = 0, times: list[int] | None = None) -> int:
        keys = [text.partition(":")[0].encode() if ":" in text else None for text in texts]
        values = [text.rpartition(":")[2].encode() or None for text in texts]
        block = block_of(keys, values, times or [0] * len(texts))
        return kafka.append([Output(topic, partition, block)])[0]

    return send


@pytest.fixture
def read(kafka: KafkaBroker) -> Read:
    """Return ``(offset, value)`` of a range, by default of all records."""

    def read(topic: str, partition: int = 0, start: int | None = None, end: int | None = None) -> list[tuple[int, str]]:
        offsets = kafka.offsets(topic)[partition]
        start, end = offsets.begin if start is None else start, offsets.end if end is None else end
        return [
            (offset, (value or b"").decode())
            for chunk in kafka.read(topic, partition, start, end)
            for offset, value in zip(chunk.offsets, chunk.block.column(1).to_pylist(), strict=True)
        ]

    return read


@pytest.fixture
def transact(cluster: Cluster) -> Transact:
    """Start a transaction of another program with some records, and return its producer."""

    def transact(
        topic: str, *values: str, partition: int = 0, key: str | None = None, time: int | None = None
    ) -> Producer:
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": f"{topic}-{next(_numbers)}"})
        producer.init_transactions(30)
        producer.begin_transaction()
        for value in values:
            producer.produce(topic, value.encode(), key, partition, timestamp=time or 0)
        producer.flush(30)
        return producer

    return transact
