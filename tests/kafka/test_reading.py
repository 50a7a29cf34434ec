"""Ranges of partitions: each record is read once and in order, across gaps."""

from __future__ import annotations

import random
from time import monotonic

import pyarrow as pa
import pytest
from tests.kafka.conftest import Read, Send, Transact

from millstream.broker import Output, TopicConfig
from millstream.errors import BrokerError, OffsetOutOfRangeError, UnknownTopicError
from millstream.foundation.blocks import block_of, headers_of
from millstream.kafka import KafkaBroker, reading
from millstream.records import TopicPartition


def test_records_round_trip(kafka: KafkaBroker, topic: str) -> None:
    headers = [(("a", b"1"), ("a", None)), ()]
    kafka.append([Output(topic, 1, block_of([b"k", None], [b"", None], [5, 2**40], headers))])
    chunks = list(kafka.read(topic, 1, 0, 2))
    block = pa.Table.from_batches([chunk.block for chunk in chunks]).combine_chunks().to_batches()[0]
    assert block.drop_columns("headers").to_pylist() == [
        {"key": b"k", "value": b"", "timestamp": 5},
        {"key": None, "value": None, "timestamp": 2**40},
    ]
    assert headers_of(block) == headers
    assert [offset for chunk in chunks for offset in chunk.offsets] == [0, 1]
    assert chunks[-1].next_offset == 2


def test_ranges_can_be_consecutive_and_start_anywhere(topic: str, send: Send, read: Read) -> None:
    send(topic, *(f"{number}" for number in range(100)))
    chance = random.Random(3)
    for _ in range(20):
        start = chance.randrange(100)
        end = chance.randrange(start, 101)
        assert read(topic, start=start, end=end) == [(offset, str(offset)) for offset in range(start, end)]
        assert read(topic, start=end, end=100) == [(offset, str(offset)) for offset in range(end, 100)]


def wait_for_end(kafka: KafkaBroker, topic: str, end: int) -> None:
    """Wait until the broker has written the end of a transaction, which it does after its response."""
    deadline = monotonic() + 30
    while kafka.offsets(topic)[0].end < end:
        assert monotonic() < deadline
    assert kafka.offsets(topic)[0].end == end


def test_aborted_records_and_control_records_are_skipped(
    kafka: KafkaBroker, topic: str, send: Send, read: Read, transact: Transact
) -> None:
    send(topic, "a")
    transact(topic, "no", "no").abort_transaction()
    wait_for_end(kafka, topic, 4)
    transact(topic, "b").commit_transaction()
    wait_for_end(kafka, topic, 6)
    send(topic, "c")
    transact(topic, "no").abort_transaction()
    end = 9  # a, no, no, abort, b, commit, c, no, abort
    wait_for_end(kafka, topic, end)
    expected = [(0, "a"), (4, "b"), (6, "c")]
    for cut in range(end + 1):
        rows = read(topic, start=0, end=cut) + read(topic, start=cut, end=end)
        assert rows == expected, f"cut at {cut}"


def test_an_open_transaction_hides_later_records(
    kafka: KafkaBroker, topic: str, send: Send, read: Read, transact: Transact
) -> None:
    send(topic, "a")
    other = transact(topic, "b")
    send(topic, "c")
    assert kafka.offsets(topic)[0].end == 1
    assert kafka.end_offsets(topic, 2) == [1, 0]
    assert read(topic) == [(0, "a")]
    other.commit_transaction()
    wait_for_end(kafka, topic, 4)  # a, b, c, commit
    assert kafka.end_offsets(topic, 1) == [4]
    assert read(topic) == [(0, "a"), (1, "b"), (2, "c")]


def test_several_ranges_are_read_concurrently(kafka: KafkaBroker, topic: str, send: Send) -> None:
    for partition in (0, 1):
        send(topic, *("x" * 100 for _ in range(15_000)), partition=partition)
    readers = [kafka.read(topic, partition, 0, 15_000) for partition in (0, 1, 0)]
    read = [0, 0, 0]
    while any(count < 15_000 for count in read):
        for number, reader in enumerate(readers):
            chunk = next(reader, None)
            read[number] += len(chunk.offsets) if chunk else 0
    assert read == [15_000] * 3


def test_an_abandoned_range_does_not_affect_later_reads(kafka: KafkaBroker, topic: str, send: Send, read: Read) -> None:
    send(topic, *(str(number) for number in range(50)))
    for _ in range(3):
        reader = kafka.read(topic, 0, 10, 50)
        next(reader)
        reader.close()  # type: ignore[attr-defined]
        assert read(topic, start=0, end=2) == [(0, "0"), (1, "1")]


def test_a_reader_that_is_not_used_stops_fetching_and_continues_later(
    kafka: KafkaBroker, topic: str, send: Send, read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    send(topic, "a", "b")
    assert read(topic, end=1) == [(0, "a")]
    reader = kafka._connections.readers._idle[topic, 0]
    assert reader.is_fetching
    assert reader._consumer.assignment() != []
    monkeypatch.setattr(reading, "_MAX_IDLE_SECONDS", 0.0)
    kafka.wait({TopicPartition(topic, 0): 0}, 1.0)
    assert not reader.is_fetching
    assert reader._consumer.assignment() == []
    send(topic, "c")
    assert read(topic, start=1) == [(1, "b"), (2, "c")]


def test_deleted_records_raise_an_error(kafka: KafkaBroker, topic: str, send: Send, read: Read) -> None:
    send(topic, "a", "b", "c")
    kafka.delete_before(topic, 0, 2)
    assert kafka.offsets(topic)[0].begin == 2
    with pytest.raises(OffsetOutOfRangeError, match="the records do not exist"):
        read(topic, start=0, end=3)
    assert read(topic) == [(2, "c")]


def test_a_missing_topic_or_partition_is_named(kafka: KafkaBroker, topic: str) -> None:
    with pytest.raises(BrokerError, match="no partition 7; it has 2"):
        kafka.read(topic, 7, 0, 1)
    with pytest.raises(UnknownTopicError, match="no topic"):
        kafka.read("nowhere", 0, 0, 1)


def test_a_topic_that_was_created_again_is_read_from_its_start(
    kafka: KafkaBroker, topic: str, send: Send, read: Read
) -> None:
    send(topic, "a", "b")
    assert read(topic) == [(0, "a"), (1, "b")]
    kafka.delete_topic(topic)
    kafka.create_topic(topic, TopicConfig(partitions=2))
    send(topic, "c", "d", "e")
    assert read(topic) == [(0, "c"), (1, "d"), (2, "e")]
    assert read(topic, start=2) == [(2, "e")]
