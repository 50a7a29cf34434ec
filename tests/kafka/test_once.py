"""Publishing exactly once, on a real broker."""

from __future__ import annotations

import pytest
from tests.kafka.conftest import Read, settle

from millstream.broker import Output, TopicConfig
from millstream.errors import RecordTooLargeError, StateError
from millstream.foundation.blocks import block_of
from millstream.kafka import KafkaBroker
from millstream.testing.kafka import Cluster


def output(topic: str, *values: str, partition: int = 0) -> Output:
    return Output(topic, partition, block_of([None] * len(values), [v.encode() for v in values], [1] * len(values)))


@pytest.fixture
def read(cluster: Cluster, kafka: KafkaBroker, read: Read) -> Read:  # waits for committed records
    def settled(topic: str, partition: int = 0) -> list[tuple[int, str]]:
        settle(kafka, cluster.bootstrap, topic)
        return read(topic, partition)

    return settled


def values(rows: list[tuple[int, str]]) -> list[str]:
    return [value for _, value in rows]


def test_a_repeated_sequence_is_skipped(cluster: Cluster, kafka: KafkaBroker, topic: str, read: Read) -> None:
    producer = f"one@{topic}.0"
    kafka.append_once(producer, 1, [output(topic, "a"), output(topic, "b", partition=1)])
    kafka.append_once(producer, 1, [output(topic, "a"), output(topic, "b", partition=1)])
    with KafkaBroker(cluster.url) as other:  # as another process would
        other.append_once(producer, 1, [output(topic, "a")])
        other.append_once(producer, 2, [output(topic, "c")])
    kafka.append_once(producer, 2, [output(topic, "c")])  # with the producer that was fenced
    kafka.append_once(producer, 4, [output(topic, "d")])
    assert values(read(topic)) == ["a", "c", "d"]
    assert values(read(topic, 1)) == ["b"]


def test_two_processes_in_turn_publish_each_sequence_once(cluster: Cluster, topic: str, read: Read) -> None:
    with KafkaBroker(cluster.url) as first, KafkaBroker(cluster.url) as second:
        for sequence in range(1, 9):
            for broker in (first, second) if sequence % 2 else (second, first):
                broker.append_once(f"one@{topic}.0", sequence, [output(topic, str(sequence))])
    assert values(read(topic)) == [str(sequence) for sequence in range(1, 9)]


def test_producers_with_different_names_are_independent(kafka: KafkaBroker, topic: str, read: Read) -> None:
    for producer in (f"one@{topic}.0", f"one@{topic}.1", f"{topic}-free"):
        kafka.append_once(producer, 1, [output(topic, producer)])
    assert len(read(topic)) == 3


def test_the_marker_is_found_when_the_outputs_change(
    cluster: Cluster, kafka: KafkaBroker, topic: str, read: Read
) -> None:
    other_topic = topic + "-other"
    kafka.create_topic(other_topic, TopicConfig(partitions=1))
    kafka.append_once(f"one@{topic}.0", 1, [output(topic, "a")])
    kafka.append_once(f"one@{topic}.0", 2, [output(other_topic, "b")])
    with KafkaBroker(cluster.url) as other:
        other.append_once(f"one@{topic}.0", 1, [output(topic, "a")])
        other.append_once(f"one@{topic}.0", 2, [output(other_topic, "b")])
    assert values(read(topic)) + values(read(other_topic)) == ["a", "b"]


def test_without_records_there_is_no_transaction(kafka: KafkaBroker, topic: str) -> None:
    kafka.append_once(f"one@{topic}.0", 1, [])
    kafka.append_once(f"one@{topic}.0", 1, [output(topic)])
    assert kafka.offsets(topic)[0].end == 0
    assert kafka.committed(f"{topic}.0.eos") == {}


def test_another_lineage_is_refused(kafka: KafkaBroker, topic: str, read: Read) -> None:
    kafka.append_once(f"one@{topic}.0", 7, [output(topic, "a")])
    with pytest.raises(StateError, match=f"millstream groups delete {topic}.0.eos"):
        kafka.append_once(f"two@{topic}.0", 1, [output(topic, "b")])
    kafka.delete_group(f"{topic}.0.eos")
    kafka.append_once(f"two@{topic}.0", 1, [output(topic, "b")])
    assert values(read(topic)) == ["a", "b"]


def test_a_failed_append_leaves_no_records(kafka: KafkaBroker, topic: str, name: str, read: Read) -> None:
    with pytest.raises(RecordTooLargeError, match=topic):
        kafka.append_once(f"one@{topic}.0", 1, [output(topic, "small"), output(topic, "x" * 2_000_000)])
    kafka.append_once(f"one@{topic}.0", 1, [output(topic, "b")])
    assert values(read(topic)) == ["b"]


def test_the_marker_is_stored_as_a_committed_offset(kafka: KafkaBroker, topic: str) -> None:
    kafka.append_once(f"one@{topic}.0", 41, [output(topic, "a", partition=1)])
    assert [(key.partition, offset) for key, offset in kafka.committed(f"{topic}.0.eos").items()] == [(0, 42)]


def test_a_producer_that_is_fenced_while_sending_many_records_retries(
    cluster: Cluster, kafka: KafkaBroker, topic: str, read: Read
) -> None:
    many = [str(number) for number in range(150_000)]
    kafka.append_once(f"one@{topic}.0", 1, [output(topic, "a")])
    with KafkaBroker(cluster.url) as other:
        other.append_once(f"one@{topic}.0", 2, [output(topic, "b")])
    kafka.append_once(f"one@{topic}.0", 3, [output(topic, *many)])
    assert values(read(topic)) == ["a", "b", *many]
