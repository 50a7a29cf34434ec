"""Waiting for records."""

from __future__ import annotations

import threading
from time import monotonic

from tests.kafka.conftest import Send, Transact

from millstream.kafka import KafkaBroker
from millstream.records import TopicPartition


def test_a_wait_times_out(kafka: KafkaBroker, topic: str) -> None:
    assert kafka.wait({TopicPartition(topic, 0): 0, TopicPartition(topic, 1): 0}, 0.2) is False


def test_existing_records_end_a_wait_immediately(kafka: KafkaBroker, topic: str, send: Send) -> None:
    send(topic, "a", "b", partition=1)
    began = monotonic()
    for position in (0, 1, 0):
        assert kafka.wait({TopicPartition(topic, 0): 0, TopicPartition(topic, 1): position}, 30)
    assert monotonic() - began < 15
    assert kafka.wait({TopicPartition(topic, 0): 0, TopicPartition(topic, 1): 2}, 0.1) is False


def test_a_wait_for_an_earlier_position_finds_the_records_there(kafka: KafkaBroker, topic: str, send: Send) -> None:
    send(topic, "a", "b", partition=0)
    assert kafka.wait({TopicPartition(topic, 0): 2}, 0.5) is False
    began = monotonic()
    assert kafka.wait({TopicPartition(topic, 0): 1}, 30)
    assert monotonic() - began < 15


def test_a_new_record_ends_a_wait(kafka: KafkaBroker, topic: str, send: Send) -> None:
    positions = {TopicPartition(topic, 0): 0, TopicPartition(topic, 1): 0}
    for number in range(3):
        sender = threading.Timer(0.1, send, [topic, "a"])
        sender.start()
        assert kafka.wait(positions, 30)
        sender.join()
        positions[TopicPartition(topic, 0)] = number + 1


def test_an_aborted_transaction_also_moves_the_end(kafka: KafkaBroker, topic: str, transact: Transact) -> None:
    other = transact(topic, "no")
    assert kafka.wait({TopicPartition(topic, 0): 0}, 0.1) is False
    other.abort_transaction()
    assert kafka.wait({TopicPartition(topic, 0): 0}, 3.0)
