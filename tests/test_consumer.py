"""The consumer: alone and in a group, back and forth, at least once."""

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

ONE = TopicPartition("lines", 0)
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


def test_without_a_group_everything_is_read_and_nothing_committed(log: EmbeddedLog, send: Send) -> None:
    send(b"1", b"2")
    send(b"3", topic="wide", partition=2)
    with Consumer(log, topics=["lines", "wide"], stop_at_end=True) as consumer:
        assert sorted(values(consumer)) == [1, 2, 3]
        assert len(consumer.assignment) == 5
        with pytest.raises(BrokerError, match="without a group cannot commit"):
            consumer.commit()
    assert log.group_names() == []


def test_types_and_nulls(log: EmbeddedLog) -> None:
    class Ride(msgspec.Struct):
        zone: int

    log.append([Output("lines", 0, block_of([b"a", None], [b'{"zone":4}', None], [5, 6]))])
    records = Consumer(log, topics="lines", value=Ride).poll()
    assert [(r.key, r.value, r.timestamp, r.offset) for r in records] == [("a", Ride(4), 5, 0), (None, None, 6, 1)]
    raw = Consumer(log, topics="lines", key=bytes, value=bytes).poll()
    assert [(r.key, r.value) for r in raw] == [(b"a", b'{"zone":4}'), (None, None)]


def test_headers_come_along(log: EmbeddedLog) -> None:
    log.append([Output("lines", 0, block_of([None] * 2, [b"1", b"2"], [0, 0], [(("h", b"x"),), ()]))])
    assert [record.headers for record in Consumer(log, topics="lines").poll()] == [(("h", b"x"),), ()]


def test_poll_returns_at_most_what_was_asked_for(log: EmbeddedLog, send: Send) -> None:
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


def test_partitions_take_turns(log: EmbeddedLog, send: Send) -> None:
    for partition in range(4):
        send(b"%d" % partition, b"%d" % partition, topic="wide", partition=partition)
    consumer = Consumer(log, topics="wide")
    firsts = [consumer.poll(0, 1)[0].value for _ in range(4)]
    assert sorted(firsts) == [0, 1, 2, 3]


def test_iteration_ends_after_a_time_without_records(log: EmbeddedLog, send: Send) -> None:
    send(b"1")
    assert values(Consumer(log, topics="lines", timeout="20 ms")) == [1]


@pytest.mark.parametrize(("reset", "wanted"), [("earliest", [1, 2]), ("latest", [2])])
def test_where_a_new_group_begins(log: EmbeddedLog, send: Send, reset: Any, wanted: list[int]) -> None:
    send(b"1")
    with Consumer(log, "g", topics="lines", auto_offset_reset=reset, timeout="20 ms") as consumer:
        send(b"2")
        assert values(consumer) == wanted


def test_a_group_goes_on_where_it_committed(log: EmbeddedLog, send: Send) -> None:
    send(b"1", b"2")
    with Consumer(log, "g", topics="lines", stop_at_end=True) as consumer:
        assert values(consumer) == [1, 2]
    send(b"3")
    with Consumer(log, "g", topics="lines", stop_at_end=True, auto_offset_reset="latest") as consumer:
        assert consumer.lag() == {ONE: 1}
        assert values(consumer) == [3]
        assert consumer.lag() == {ONE: 0}


def test_only_what_was_handed_out_is_committed(log: EmbeddedLog, send: Send) -> None:
    send(*[b"%d" % number for number in range(10)])
    with Consumer(log, "g", topics="lines") as consumer:
        for record in consumer:
            if record.value == 3:
                break
        assert consumer.position("lines", 0) == 4
    assert log.committed("g") == {ONE: 4}


def test_after_a_failure_the_records_come_again(log: EmbeddedLog, send: Send) -> None:
    send(b"1", b"2")
    with pytest.raises(ZeroDivisionError), Consumer(log, "g", topics="lines") as consumer:
        sum(1 // (record.value - 1) for record in consumer)
    assert log.committed("g") == {}
    assert log.group("g").members == ()


def test_commit_by_hand(log: EmbeddedLog, send: Send) -> None:
    send(b"1", b"2", b"3")
    with Consumer(log, "g", topics="lines", auto_commit=False, stop_at_end=True) as consumer:
        for record in consumer:
            if record.value == 2:
                consumer.commit()
    assert log.committed("g") == {ONE: 2}


def test_commits_happen_from_time_to_time(log: EmbeddedLog, send: Send) -> None:
    send(b"1", b"2")
    with Consumer(log, "g", topics="lines", commit_every="0 ms") as consumer:
        consumer.poll(0, 1)
        assert log.committed("g") == {ONE: 0}, "a record counts as read when the next poll comes"
        consumer.poll(0, 1)
        assert log.committed("g") == {ONE: 1}


def test_seek(log: EmbeddedLog, send: Send) -> None:
    send(*b"abcde".hex(" ", 1).encode().split(), times=[0, 1000, 2000, 3000, 4000])
    consumer = Consumer(log, topics="lines", value=bytes)
    places: dict[Any, list[int]] = {
        2: [2, 3, 4],
        "beginning": [0, 1, 2, 3, 4],
        "end": [],
        datetime.fromtimestamp(2.5, UTC): [3, 4],
        datetime.fromtimestamp(99, UTC): [],
    }
    for place, wanted in places.items():
        consumer.seek("lines", 0, place)
        assert [record.offset for record in consumer.poll(0)] == wanted
    with pytest.raises(OffsetOutOfRangeError, match=r"lines\[0\] has no offset 9; .*from 0 up to 5"):
        consumer.seek("lines", 0, 9)
    with pytest.raises(BrokerError, match=r"wide\[0\] is not read by this consumer"):
        consumer.seek("wide", 0, 0)


def test_seek_within_an_iteration(log: EmbeddedLog, send: Send) -> None:
    send(*[b"%d" % number for number in range(5)])
    consumer = Consumer(log, topics="lines", stop_at_end=True)
    seen = []
    for record in consumer:
        seen.append(record.value)
        if seen == [0, 1]:
            consumer.seek("lines", 0, 4)
    assert seen == [0, 1, 4]


def test_a_bad_record_is_named_and_can_be_skipped(log: EmbeddedLog, send: Send) -> None:
    send(b"1", b"{oops", b"3")
    consumer = Consumer(log, topics="lines")
    assert [record.value for record in consumer.poll(0)] == [1]
    message = r"cannot decode the value of lines\[0\]@1 as json: .*b'{oops'; read it with value=bytes, or .* seek"
    for _ in range(2):
        with pytest.raises(SerdeError, match=message) as info:
            consumer.poll(0)
    consumer.seek("lines", 0, info.value.facts["offset"] + 1)
    assert [record.value for record in consumer.poll(0)] == [3]


def test_the_first_of_two_bad_fields_is_named(log: EmbeddedLog) -> None:
    log.append([Output("lines", 0, block_of([b"\xff", b"b"], [b"1", b"{"], [0, 0]))])
    with pytest.raises(SerdeError, match=r"the key of lines\[0\]@0 as str"):
        Consumer(log, topics="lines").poll(0)


def test_gaps_after_compaction_are_no_obstacle(log: EmbeddedLog) -> None:
    log.create_topic("table", TopicConfig(partitions=1, compact=True, tombstone_retention_ms=0))
    log.append([Output("table", 0, block_of([b"a", b"a", b"b", b"b"], [b"1", b"2", b"3", None], [0] * 4))])
    log.clean("table", now=10**15)
    consumer = Consumer(log, topics="table", stop_at_end=True)
    assert [(record.offset, record.value) for record in consumer] == [(1, 2)]
    assert consumer.lag() == {TopicPartition("table", 0): 0}


def test_records_deleted_meanwhile_are_passed_over_with_a_warning(
    log: EmbeddedLog, send: Send, caplog: pytest.LogCaptureFixture
) -> None:
    consumer = Consumer(log, topics="lines")
    send(b"1", b"2", b"3")
    log.delete_before("lines", 0, 2)
    assert [record.value for record in consumer.poll("1 s")] == [3]
    assert "consumer.offset_reset" in caplog.text


def test_new_partitions_are_found(log: EmbeddedLog, send: Send) -> None:
    consumer = Consumer(log, topics="lines")
    log.alter_topic("lines", partitions=2)
    send(b"1", partition=1)
    consumer._looked = float("-inf")
    assert [record.value for record in consumer.poll("1 s")] == [1]


def test_two_members_share_and_hand_over_without_repeating(log: EmbeddedLog, send: Send) -> None:
    for partition in range(4):
        send(*[b"%d" % number for number in range(10)], topic="wide", partition=partition)
    first = Consumer(log, "g", topics="wide")
    seen = [(r.partition, r.value) for r in first.poll(0, 15)]
    second = Consumer(log, "g", topics="wide")
    consumers = [first, second]
    for _ in range(20):
        for consumer in consumers:
            seen += [(r.partition, r.value) for r in consumer.poll(0)]
    assert [len(consumer.assignment) for consumer in consumers] == [2, 2]
    assert sorted(seen) == [(partition, value) for partition in range(4) for value in range(10)]
    first.close()
    second.close()
    assert sum(log.committed("g").values()) == 40


def test_a_commit_for_lost_partitions_is_refused(log: EmbeddedLog, send: Send) -> None:
    send(b"1")
    slow = Consumer(log, "g", topics="lines", auto_commit=False, session_timeout="1 ms")
    slow.poll(0)
    member: Any = slow._member
    os.utime(member._lock.path, (0, 0))
    quick = Consumer(log, "g", topics="lines", session_timeout="1 h")
    assert [record.value for record in quick.poll("1 s")] == [1]
    with pytest.raises(RebalancedError):
        slow.commit()
    slow.close()
    quick.close()


def test_misuse_is_named(log: EmbeddedLog) -> None:
    with pytest.raises(DefinitionError, match="auto_offset_reset is 'newest'"):
        Consumer(log, topics="lines", auto_offset_reset="newest")  # type: ignore[arg-type]
    consumer = Consumer(log, topics="lines")
    consumer.close()
    with pytest.raises(BrokerError, match="the consumer is closed"):
        consumer.poll(0)
