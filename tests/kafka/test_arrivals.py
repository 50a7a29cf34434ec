"""Records are received before a loop asks for them: all of them, once, in order, whatever happens to the topic."""

from __future__ import annotations

import random
import threading
from time import monotonic

import pytest
from tests.kafka.conftest import Send, Transact

from millstream.broker import TopicConfig
from millstream.errors import BrokerError, OffsetOutOfRangeError, UnknownTopicError
from millstream.kafka import KafkaBroker
from millstream.records import TopicPartition

pytestmark = pytest.mark.kafka


class Follower:
    """Reads what was received of both partitions of a topic, as a planner and its tasks do."""

    def __init__(self, kafka: KafkaBroker, topic: str) -> None:
        self.kafka = kafka
        self.positions = {TopicPartition(topic, 0): 0, TopicPartition(topic, 1): 0}
        self.rows: list[tuple[int, int, bytes]] = []
        kafka.received_ends(self.positions)

    def receive(self, records: int) -> None:
        """Read until there are that many records."""
        deadline = monotonic() + 30
        while len(self.rows) < records:
            assert monotonic() < deadline, self.rows
            if self.kafka.wait(self.positions, 1.0):
                self.read_received()

    def read_received(self) -> None:
        for key, end in self.kafka.received_ends(self.positions).items():
            for chunk in self.kafka.read(key.topic, key.partition, self.positions[key], end):
                values = chunk.block.column(1).to_pylist()
                self.rows += zip([key.partition] * len(values), map(int, chunk.offsets), values, strict=True)
            self.positions[key] = end


def test_all_records_are_received_in_order(kafka: KafkaBroker, topic: str, send: Send) -> None:
    follower, chance, sent = Follower(kafka, topic), random.Random(5), {0: 0, 1: 0}
    for _ in range(20):
        partition = chance.randrange(2)
        count = chance.randrange(1, 40)
        send(topic, *(str(sent[partition] + number) for number in range(count)), partition=partition)
        sent[partition] += count
        follower.receive(len(follower.rows) + chance.randrange(1, count + 1))
    follower.receive(sum(sent.values()))
    for partition, count in sent.items():
        rows = [(offset, value) for number, offset, value in follower.rows if number == partition]
        assert rows == [(number, str(number).encode()) for number in range(count)]
    kafka.stop_receiving()


def test_a_batch_can_be_read_again(kafka: KafkaBroker, topic: str, send: Send) -> None:
    follower = Follower(kafka, topic)
    send(topic, "a", "b")
    follower.receive(2)
    for start, expected in ((0, [b"a", b"b"]), (1, [b"b"]), (0, [b"a", b"b"])):
        chunks = list(kafka.read(topic, 0, start, 2))
        assert [value for chunk in chunks for value in chunk.block.column(1).to_pylist()] == expected
    send(topic, "c")
    follower.receive(3)
    assert [value for *_, value in follower.rows] == [b"a", b"b", b"c"]
    kafka.stop_receiving()


def test_transactions_are_received_when_they_are_committed(
    kafka: KafkaBroker, topic: str, send: Send, transact: Transact
) -> None:
    follower = Follower(kafka, topic)
    send(topic, "a")
    follower.receive(1)
    other = transact(topic, "b")
    send(topic, "c")
    assert not kafka.wait(follower.positions, 0.05)
    other.commit_transaction()
    follower.receive(3)
    transact(topic, "no").abort_transaction()
    end = kafka.offsets(topic)[0].end + 1
    while follower.positions[TopicPartition(topic, 0)] < end:  # control records move the position too
        kafka.wait(follower.positions, 1.0)
        follower.read_received()
        end = kafka.offsets(topic)[0].end
    assert [value for *_, value in follower.rows] == [b"a", b"b", b"c"]
    kafka.stop_receiving()


def test_records_that_are_about_to_be_received_are_waited_for(kafka: KafkaBroker, topic: str, send: Send) -> None:
    follower = Follower(kafka, topic)
    send(topic, "a")
    assert kafka.end_offsets(topic, 1) == [1]
    chunks = list(kafka.read(topic, 0, 0, 1))
    assert [value for chunk in chunks for value in chunk.block.column(1).to_pylist()] == [b"a"]
    follower.positions[TopicPartition(topic, 0)] = 1
    assert kafka.received_ends(follower.positions)[TopicPartition(topic, 0)] == 1
    kafka.stop_receiving()


def test_a_wait_for_no_partition_ends_without_records(kafka: KafkaBroker, topic: str) -> None:
    kafka.received_ends({TopicPartition(topic, 0): 0})
    kafka.stop_receiving()
    assert not kafka.wait({}, 0)


def test_other_threads_read_for_themselves(kafka: KafkaBroker, topic: str, send: Send) -> None:
    follower = Follower(kafka, topic)
    send(topic, "a", "b")
    follower.receive(2)
    rows: list[int] = []
    thread = threading.Thread(target=lambda: rows.extend(len(chunk.block) for chunk in kafka.read(topic, 0, 0, 2)))
    thread.start()
    thread.join()
    assert sum(rows) == 2
    assert kafka.received_ends(follower.positions)[TopicPartition(topic, 0)] == 2
    kafka.stop_receiving()


def test_what_retention_has_deleted_is_an_error_of_the_read(kafka: KafkaBroker, topic: str, send: Send) -> None:
    send(topic, "a", "b", "c")
    kafka.delete_before(topic, 0, 2)
    Follower(kafka, topic)
    with pytest.raises(OffsetOutOfRangeError):
        list(kafka.read(topic, 0, 0, 3))
    kafka.stop_receiving()


def test_a_topic_that_was_deleted_is_an_error_and_can_be_created_again(
    kafka: KafkaBroker, topic: str, send: Send
) -> None:
    follower = Follower(kafka, topic)
    send(topic, "a", "b")
    follower.receive(2)
    kafka.delete_topic(topic)

    def wait_until_it_fails() -> None:
        while True:
            kafka.wait(follower.positions, 0.2)
            kafka.offsets(topic)

    with pytest.raises((UnknownTopicError, BrokerError)):
        wait_until_it_fails()
    kafka.stop_receiving()  # as a loop does that ends with this error
    kafka.create_topic(topic, TopicConfig(partitions=2))
    send(topic, "c")
    again = Follower(kafka, topic)
    again.receive(1)
    assert [value for *_, value in again.rows] == [b"c"]
    kafka.stop_receiving()
