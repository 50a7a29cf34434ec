"""Consumer groups: changing committed offsets, and members that share partitions."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic

import pytest
from tests.kafka.conftest import Send

from millstream.consumer import Consumer
from millstream.errors import BrokerError, RebalancedError
from millstream.kafka import KafkaBroker
from millstream.producer import Producer
from millstream.records import Record, TopicPartition
from millstream.testing.kafka import Cluster


def until(condition: Callable[[], bool]) -> None:
    deadline = monotonic() + 60
    while not condition():
        assert monotonic() < deadline, "timed out"


def test_the_offsets_of_a_group_without_members_can_be_changed(kafka: KafkaBroker, topic: str, send: Send) -> None:
    send(topic, "a", "b")
    kafka.commit(topic, {TopicPartition(topic, 0): 2})
    assert kafka.committed(topic) == {TopicPartition(topic, 0): 2}
    assert topic in kafka.group_names()
    assert kafka.group(topic).members == ()
    kafka.delete_group(topic)
    assert kafka.committed(topic) == {}
    with pytest.raises(BrokerError, match="there is no group"):
        kafka.group(topic)
    assert kafka.members(topic) == ()


def test_members_share_partitions_and_continue_from_committed_offsets(cluster: Cluster, topic: str) -> None:
    with KafkaBroker(cluster.url) as broker, KafkaBroker(cluster.url) as other:
        with Producer(broker, value=int) as producer:
            for number in range(100):
                producer.send(topic, number, key=str(number))
        seen: list[Record] = []
        with Consumer(broker, topic, topics=[topic], value=int) as first:
            while len(seen) < 100:
                seen += first.poll("0.2 s")
            assert len(first.assignment) == 2
            first.commit()
            with Consumer(other, topic, topics=[topic], value=int) as second:

                def shared() -> bool:
                    assert not first.poll("0.1 s")
                    assert not second.poll("0.1 s")
                    return len(first.assignment) == len(second.assignment) == 1

                until(shared)
                assert {*first.assignment, *second.assignment} == {TopicPartition(topic, 0), TopicPartition(topic, 1)}
                assert len(broker.members(topic)) == 2
                assert broker.group(topic).members == broker.members(topic)
                with pytest.raises(BrokerError, match="live members"):
                    broker.delete_group(topic)
        assert sorted(record.value for record in seen) == list(range(100))
        assert sum(broker.committed(topic).values()) == 100


def test_a_commit_for_partitions_of_other_members_is_refused(kafka: KafkaBroker, topic: str) -> None:
    member = kafka.join_group(topic, [topic])
    until(lambda: len(member.refresh(lambda lost: None)) == 2)
    member.commit({TopicPartition(topic, 0): 0})
    with pytest.raises(RebalancedError, match="another member"):
        member.commit({TopicPartition("elsewhere", 0): 0})
    member.leave()
