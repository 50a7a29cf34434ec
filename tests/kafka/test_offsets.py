"""Offsets by timestamp, and while a partition has no leader."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from confluent_kafka import TopicPartition
from tests.kafka.conftest import Send

from millstream.broker import Offsets
from millstream.kafka import KafkaBroker
from millstream.kafka.address import KafkaAddress
from millstream.kafka.clients import Clients
from millstream.kafka.offsets import OffsetLookup
from millstream.kafka.topics import KafkaTopics


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
