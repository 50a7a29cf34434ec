"""The consumer: with and without a group, seeking, at-least-once."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from millstream.broker import Output, TopicConfig
from millstream.consumer import Consumer
from millstream.errors import BrokerError, DefinitionError, OffsetOutOfRangeError, RebalancedError, SerdeError
from millstream.foundation.blocks import block_of
from millstream.log import EmbeddedLog
from millstream.records import TopicPartition

PARTITION = TopicPartition("lines", 0)
Send = Callable[..., None]


@pytest.fixture
def log(tmp_path: Path) -> Iterator[EmbeddedLog]:
    with EmbeddedLog(tmp_path, durability="os") as log:
        log.create_topic("lines", TopicConfig(partitions=1))
        log.create_topic("wide", TopicConfig(partitions=4))
        yield log


@pytest.fixture
def send(log: EmbeddedLog) -> Send:
    def send(*values: bytes, topic: str = "lines", partition: int = 0, times: list[int] | None = None) -> None:
        block = block_of([None] * len(values), values, times or [0] * len(values))
        log.append([Output(topic, partition, block)])

    return send


def values(consumer: Consumer) -> list[Any]:
    return [record.value for record in consumer]


def test_a_consumer_without_a_group_reads_everything_and_commits_nothing(log: EmbeddedLog, send: Send) -> None:
    send(b"1", b"2")
    send(b"3", topic="wide", partition=2)
    with Consumer(log, topics=["lines", "wide"], stop_at_end=True) as consumer:
        assert sorted(values(consumer)) == [1, 2, 3]
        assert len(consumer.assignment) == 5
        with pytest.raises(BrokerError, match="without a group cannot commit"):
            consumer.commit()
    assert log.group_names() == []


def test_values_are_decoded_and_nulls_are_none(log: EmbeddedLog) -> None:
    class Ride(msgspec.Struct):
        zone: int

    log.append([Output("lines", 0, block_of([b"a", None], [b'{"zone":4}', None], [5, 6]))])
    records = Consumer(log, topics="lines", value=Ride).poll()
    assert [(r.key, r.value, r.timestamp, r.offset) for r in records] == [("a", Ride(4), 5, 0), (None, None, 6, 1)]
    raw = Consumer(log, topics="lines", key=bytes, value=bytes).poll()
    assert [(r.key, r.value) for r in raw] == [(b"a", b'{"zone":4}'), (None, None)]


def test_headers_are_read(log: EmbeddedLog) -> None:
    log.append([Output("lines", 0, block_of([None] * 2, [b"1", b"2"], [0, 0], [(("h", b"x"),), ()]))])
    assert [record.headers for record in Consumer(log, topics="lines").poll()] == [(("h", b"x"),), ()]


def test_poll_returns_at_most_the_requested_number_of_records(log: EmbeddedLog, send: Send) -> None:
    send(*[b"%d" % number for number in range(10)])
    consumer = Consumer(log, topics="lines")
    polled = [[record.value for record in consumer.poll(0, 4)] for _ in range(4)]
    assert polled == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9], []]


def test_poll_waits_for_records(log: EmbeddedLog, send: Send) -> None:
    consumer = Consumer(log, topics="lines")
    assert consumer.poll("10 ms") == []
    timer = threading.Timer(0.05, send, [b"1"])
    timer.start()
    assert [record.value for record in consumer.poll("30 s")] == [1]
    timer.join()


def test_partitions_are_read_in_turn(log: EmbeddedLog, send: Send) -> None:
    for partition in range(4):
        send(b"%d" % partition, b"%d" % partition, topic="wide", partition=partition)
    consumer = Consumer(log, topics="wide")
    firsts = [consumer.poll(0, 1)[0].value for _ in range(4)]
    assert sorted(firsts) == [0, 1, 2, 3]


def test_iteration_ends_after_the_timeout_without_records(log: EmbeddedLog, send: Send) -> None:
    send(b"1")
    assert values(Consumer(log, topics="lines", timeout="20 ms")) == [1]


@pytest.mark.parametrize(("reset", "expected"), [("earliest", [1, 2]), ("latest", [2])])
def test_a_new_group_starts_at_its_reset_position(
    log: EmbeddedLog, send: Send, reset: Any, expected: list[int]
) -> None:
    send(b"1")
    with Consumer(log, "g", topics="lines", auto_offset_reset=reset, timeout="20 ms") as consumer:
        send(b"2")
        assert values(consumer) == expected


def test_a_group_continues_at_its_committed_offset(log: EmbeddedLog, send: Send) -> None:
    send(b"1", b"2")
    with Consumer(log, "g", topics="lines", stop_at_end=True) as consumer:
        assert values(consumer) == [1, 2]
    send(b"3")
    with Consumer(log, "g", topics="lines", stop_at_end=True, auto_offset_reset="latest") as consumer:
        assert consumer.lag() == {PARTITION: 1}
        assert values(consumer) == [3]
        assert consumer.lag() == {PARTITION: 0}


def test_only_returned_records_are_committed(log: EmbeddedLog, send: Send) -> None:
    send(*[b"%d" % number for number in range(10)])
    with Consumer(log, "g", topics="lines") as consumer:
        for record in consumer:
            if record.value == 3:
                break
        assert consumer.position("lines", 0) == 4
    assert log.committed("g") == {PARTITION: 4}


def test_records_are_not_committed_after_a_failure(log: EmbeddedLog, send: Send) -> None:
    send(b"1", b"2")
    with pytest.raises(ZeroDivisionError), Consumer(log, "g", topics="lines") as consumer:
        sum(1 // (record.value - 1) for record in consumer)
    assert log.committed("g") == {}
    assert log.group("g").members == ()


def test_offsets_can_be_committed_manually(log: EmbeddedLog, send: Send) -> None:
    send(b"1", b"2", b"3")
    with Consumer(log, "g", topics="lines", auto_commit=False, stop_at_end=True) as consumer:
        for record in consumer:
            if record.value == 2:
                consumer.commit()
    assert log.committed("g") == {PARTITION: 2}


def test_offsets_are_committed_at_the_configured_interval(log: EmbeddedLog, send: Send) -> None:
    send(b"1", b"2")
    with Consumer(log, "g", topics="lines", commit_every="0 ms") as consumer:
        consumer.poll(0, 1)
        assert log.committed("g") == {PARTITION: 0}, "a record counts as read only at the next poll"
        consumer.poll(0, 1)
        assert log.committed("g") == {PARTITION: 1}


def test_seek_moves_to_an_offset_an_end_or_a_time(log: EmbeddedLog, send: Send) -> None:
    send(*b"abcde".hex(" ", 1).encode().split(), times=[0, 1000, 2000, 3000, 4000])
    consumer = Consumer(log, topics="lines", value=bytes)
    positions: dict[Any, list[int]] = {
        2: [2, 3, 4],
        "beginning": [0, 1, 2, 3, 4],
        "end": [],
        datetime.fromtimestamp(2.5, UTC): [3, 4],
        datetime.fromtimestamp(99, UTC): [],
    }
    for position, expected in positions.items():
        consumer.seek("lines", 0, position)
        assert [record.offset for record in consumer.poll(0)] == expected
    with pytest.raises(OffsetOutOfRangeError, match=r"lines\[0\] has no offset 9; .*from 0 up to 5"):
        consumer.seek("lines", 0, 9)
    with pytest.raises(BrokerError, match=r"wide\[0\] is not read by this consumer"):
        consumer.seek("wide", 0, 0)


def test_seek_takes_effect_during_iteration(log: EmbeddedLog, send: Send) -> None:
    send(*[b"%d" % number for number in range(5)])
    consumer = Consumer(log, topics="lines", stop_at_end=True)
    received = []
    for record in consumer:
        received.append(record.value)
        if received == [0, 1]:
            consumer.seek("lines", 0, 4)
    assert received == [0, 1, 4]


def test_the_error_for_a_bad_record_names_it_so_that_it_can_be_skipped(log: EmbeddedLog, send: Send) -> None:
    send(b"1", b"{oops", b"3")
    consumer = Consumer(log, topics="lines")
    assert [record.value for record in consumer.poll(0)] == [1]
    message = r"cannot decode the value of lines\[0\]@1 as json: .*b'{oops'; read it with value=bytes, or .* seek"
    for _ in range(2):
        with pytest.raises(SerdeError, match=message) as info:
            consumer.poll(0)
    consumer.seek("lines", 0, info.value.facts["offset"] + 1)
    assert [record.value for record in consumer.poll(0)] == [3]


def test_the_first_of_two_bad_fields_is_reported(log: EmbeddedLog) -> None:
    log.append([Output("lines", 0, block_of([b"\xff", b"b"], [b"1", b"{"], [0, 0]))])
    with pytest.raises(SerdeError, match=r"the key of lines\[0\]@0 as str"):
        Consumer(log, topics="lines").poll(0)


def test_offset_gaps_after_compaction_are_skipped(log: EmbeddedLog) -> None:
    log.create_topic("table", TopicConfig(partitions=1, compact=True, tombstone_retention_ms=0))
    log.append([Output("table", 0, block_of([b"a", b"a", b"b", b"b"], [b"1", b"2", b"3", None], [0] * 4))])
    log.clean("table", now=10**15)
    consumer = Consumer(log, topics="table", stop_at_end=True)
    assert [(record.offset, record.value) for record in consumer] == [(1, 2)]
    assert consumer.lag() == {TopicPartition("table", 0): 0}


def test_deleted_records_are_skipped_with_a_warning(
    log: EmbeddedLog, send: Send, caplog: pytest.LogCaptureFixture
) -> None:
    consumer = Consumer(log, topics="lines")
    send(b"1", b"2", b"3")
    log.delete_before("lines", 0, 2)
    assert [record.value for record in consumer.poll("1 s")] == [3]
    assert "consumer.offset_reset" in caplog.text


def test_new_partitions_are_detected(log: EmbeddedLog, send: Send) -> None:
    consumer = Consumer(log, topics="lines")
    log.alter_topic("lines", partitions=2)
    send(b"1", partition=1)
    consumer._refreshed = float("-inf")
    assert [record.value for record in consumer.poll("1 s")] == [1]


def test_partitions_move_to_a_new_member_without_duplicates(log: EmbeddedLog, send: Send) -> None:
    for partition in range(4):
        send(*[b"%d" % number for number in range(10)], topic="wide", partition=partition)
    first = Consumer(log, "g", topics="wide")
    received = [(r.partition, r.value) for r in first.poll(0, 15)]
    second = Consumer(log, "g", topics="wide")
    consumers = [first, second]
    for _ in range(20):
        for consumer in consumers:
            received += [(r.partition, r.value) for r in consumer.poll(0)]
    assert [len(consumer.assignment) for consumer in consumers] == [2, 2]
    assert sorted(received) == [(partition, value) for partition in range(4) for value in range(10)]
    first.close()
    second.close()
    assert sum(log.committed("g").values()) == 40


def test_a_commit_for_lost_partitions_is_rejected(log: EmbeddedLog, send: Send) -> None:
    send(b"1")
    slow = Consumer(log, "g", topics="lines", auto_commit=False, session_timeout="1 ms")
    slow.poll(0)
    member: Any = slow._member
    os.utime(member._lock.path, (0, 0))
    fast = Consumer(log, "g", topics="lines", session_timeout="1 h")
    assert [record.value for record in fast.poll("1 s")] == [1]
    with pytest.raises(RebalancedError):
        slow.commit()
    slow.close()
    fast.close()


def test_misuse_is_reported(log: EmbeddedLog) -> None:
    with pytest.raises(DefinitionError, match="auto_offset_reset is 'newest'"):
        Consumer(log, topics="lines", auto_offset_reset="newest")  # type: ignore[arg-type]
    consumer = Consumer(log, topics="lines")
    consumer.close()
    with pytest.raises(BrokerError, match="the consumer is closed"):
        consumer.poll(0)
