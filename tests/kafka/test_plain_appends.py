"""Plain appends."""

from __future__ import annotations

import pytest
from tests.kafka.conftest import Read, Send
from tests.waiting import wait_until

from millstream.broker import Output, TopicConfig
from millstream.errors import RecordTooLargeError, UnknownTopicError
from millstream.foundation.blocks import block_of
from millstream.kafka import KafkaBroker


def test_offsets_of_the_first_records_are_returned(kafka: KafkaBroker, topic: str, send: Send) -> None:
    assert send(topic, "a", "b") == 0
    blocks = [block_of([None], [b"c"], [0]), block_of([None, None], [b"d", b"e"], [0, 0])]
    assert kafka.append([Output(topic, 1, blocks[0]), Output(topic, 0, blocks[1])]) == [0, 2]


def test_timestamps_far_in_the_past_and_future_are_kept(kafka: KafkaBroker, topic: str) -> None:
    times = [0, 1, 4_070_908_800_000]  # 1970 and 2099
    kafka.append([Output(topic, 0, block_of([None] * 3, [b"x"] * 3, times))])
    timestamps = [time for chunk in kafka.read(topic, 0, 0, 3) for time in chunk.block.column(2).to_pylist()]
    assert timestamps == [1, *times[1:]]  # the client cannot send the timestamp 0


def test_without_acknowledgement_an_append_does_not_wait(kafka: KafkaBroker, topic: str, read: Read) -> None:
    assert kafka.append([Output(topic, 0, block_of([None], [b"a"], [0]))], acks="none") == [-1]
    assert kafka.wait({}, 0) is False
    wait_until(lambda: kafka.offsets(topic)[0].end != 0)
    assert read(topic) == [(0, "a")]


def test_a_record_of_the_maximum_size_fits_and_a_larger_one_does_not(kafka: KafkaBroker, name: str) -> None:
    kafka.create_topic(name, TopicConfig(partitions=1, max_record_bytes=10_000))
    kafka.append([Output(name, 0, block_of([b"k"], [b"x" * 9_999], [0]))])
    with pytest.raises(RecordTooLargeError, match="too large"):
        kafka.append([Output(name, 0, block_of([b"k"], [b"x" * 11_000], [0]))])


def test_many_small_records_may_exceed_the_limit_of_a_record(kafka: KafkaBroker, name: str) -> None:
    kafka.create_topic(name, TopicConfig(partitions=1, max_record_bytes=2_000))
    assert kafka.append([Output(name, 0, block_of([None] * 5_000, [b"x" * 100] * 5_000, [0] * 5_000))]) == [0]
    assert kafka.offsets(name)[0].end == 5_000


def test_a_missing_topic_is_named(kafka: KafkaBroker) -> None:
    with pytest.raises(UnknownTopicError, match="'nowhere'"):
        kafka.append([Output("nowhere", 0, block_of([None], [b"x"], [0]))])


def test_a_partition_that_was_added_can_be_written_at_once(kafka: KafkaBroker, name: str) -> None:
    kafka.create_topic(name, TopicConfig(partitions=1))
    block = block_of([None], [b"x"], [0])
    kafka.append([Output(name, 0, block)])  # now the client knows the partitions of the topic
    kafka.alter_topic(name, partitions=4)
    assert kafka.append([Output(name, 3, block)]) == [0]
