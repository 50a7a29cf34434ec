"""Cases of Kafka's ``ShareConsumerTest`` that only Kafka can run."""

from __future__ import annotations

import pytest
from confluent_kafka import Producer
from tests.queues.conftest import Queue

from millstream.errors import BrokerError
from millstream.testing.kafka import Cluster

pytestmark = [pytest.mark.kafka, pytest.mark.xdist_group("kafka share groups")]


def test_read_committed_isolation_level(kafka_queue: Queue, share_cluster: Cluster) -> None:
    """Aborted records are not delivered: a share group reads like every other reader of Millstream."""
    settings = {"bootstrap.servers": share_cluster.bootstrap, "transactional.id": kafka_queue.topic}
    producer = Producer(settings)
    producer.init_transactions(30)
    for number in range(4):
        producer.begin_transaction()
        producer.produce(kafka_queue.topic, str(number).encode())
        producer.flush(30)
        (producer.abort_transaction if number % 2 else producer.commit_transaction)(30)
    records = kafka_queue.take_all(kafka_queue.join(), 2)
    assert [record.value for record in records] == ["0", "2"]


def test_settings_that_the_cluster_does_not_allow_are_refused(kafka_queue: Queue) -> None:
    with pytest.raises(BrokerError, match="max_deliveries"):
        kafka_queue.join(max_deliveries=100)
