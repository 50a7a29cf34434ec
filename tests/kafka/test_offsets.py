"""Offsets by timestamp, and while a partition has no leader."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from tests.kafka.conftest import Send

from millstream.broker import Offsets, TopicConfig
from millstream.kafka import KafkaBroker
from millstream.kafka.address import KafkaAddress
from millstream.kafka.clients import Clients
from millstream.kafka.offsets import OffsetLookup
from millstream.kafka.topics import KafkaTopics
from millstream.testing.kafka import Cluster


def test_the_first_record_with_a_timestamp_or_later_is_found(kafka: KafkaBroker, topic: str, send: Send) -> None:
    send(topic, "a", "b", "c", times=[10, 30, 20])
    assert [kafka.offset_at(topic, 0, time) for time in (0, 10, 11, 20, 30, 31)] == [0, 0, 1, 1, 1, None]
    assert kafka.offset_at(topic, 1, 0) is None


class LeaderlessLookup(OffsetLookup):
    """The client's answer while the leader of partition 1 is lost, as seen in crash trials on a cluster."""

    answers = iter([[0, 0], [7, -1001], [7, 9]])

    def _list_offsets(self, topic: str, specs: Mapping[TopicPartition, Any]) -> list[int]:
        return next(self.answers)


def test_a_partition_without_a_leader_is_asked_again(kafka: KafkaBroker, topic: str) -> None:
    clients = Clients(KafkaAddress.parse(kafka.url))
    bounds = LeaderlessLookup(clients, KafkaTopics(clients)).bounds(topic)
    assert bounds == [Offsets(0, 7), Offsets(0, 9)]


@pytest.mark.crash
def test_a_leader_that_is_lost_is_waited_for_without_using_the_processor(artifacts: None) -> None:
    """Of a host with two cores, a few clients that wait for a lost broker took all the time that the others needed."""
    with Cluster(3, properties={"broker.session.timeout.ms": 6000}) as cluster, KafkaBroker(cluster.url) as broker:
        broker.create_topic("lines", TopicConfig(partitions=3))
        assert broker.offsets("lines") == [Offsets(0, 0)] * 3
        cluster.nodes[0].kill()
        began = time.process_time()
        assert broker.offsets("lines") == [Offsets(0, 0)] * 3
        assert time.process_time() - began < 3.0, "16 s of 20 before"
