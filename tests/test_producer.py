"""The producer: quick to take, never silent about what it could not send."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest

from millstream.broker import Acks, Output, TopicConfig
from millstream.consumer import Consumer
from millstream.errors import (
    BrokerError,
    BrokerUnavailableError,
    BufferFullError,
    DefinitionError,
    RecordTooLargeError,
    SerdeError,
    UnknownTopicError,
)
from millstream.foundation.partitioning import partition_of
from millstream.log import EmbeddedLog
from millstream.producer import Delivery, Producer
from millstream.records import Record


@pytest.fixture
def log(tmp_path: Path) -> Iterator[EmbeddedLog]:
    with EmbeddedLog(tmp_path, durability="os") as log:
        log.create_topic("lines", TopicConfig(partitions=3, max_record_bytes=1000))
        yield log


def everything(log: EmbeddedLog, **options: Any) -> list[Record]:
    return list(Consumer(log, topics="lines", stop_at_end=True, **options))


class Shaky(EmbeddedLog):
    """A log whose appends do what the test says: wait for ``gate``, then raise the next of ``errors``."""

    def __init__(self, log: EmbeddedLog, *errors: Exception) -> None:
        self.__dict__.update(log.__dict__)
        self.errors = list(errors)
        self.gate = threading.Event()
        self.gate.set()
        self.calls = 0

    def append(self, outputs: Sequence[Output], *, acks: Acks = "synced") -> list[int]:
        self.calls += 1
        assert self.gate.wait(30)
        if self.errors:
            raise self.errors.pop(0)
        return super().append(outputs, acks=acks)


def test_records_arrive_whole(log: EmbeddedLog) -> None:
    with Producer(log) as producer:
        producer.send("lines", {"n": 1}, key="a", timestamp=7, headers={"trace": "x", "none": None})
        producer.send("lines", None, key=["k", 2], headers=[("h", b"1"), ("h", b"2")])
    first, second = sorted(everything(log), key=lambda record: record.key, reverse=True)
    assert (first.key, first.value, first.timestamp) == ("a", {"n": 1}, 7)
    assert first.headers == (("trace", b"x"), ("none", None))
    assert (second.key, second.value, second.headers) == ('["k",2]', None, (("h", b"1"), ("h", b"2")))


def test_keys_decide_the_partition_and_order_holds(log: EmbeddedLog) -> None:
    with Producer(log, batch_records=50) as producer:
        for number in range(1000):
            producer.send("lines", number, key=f"k{number % 17}")
    records = everything(log)
    assert all(record.partition == partition_of(record.key.encode(), 3) for record in records)
    for key in {record.key for record in records}:
        mine = [record.value for record in records if record.key == key]
        assert mine == sorted(mine)
    assert len(records) == 1000


def test_records_without_key_go_round(log: EmbeddedLog) -> None:
    with Producer(log) as producer:
        for _ in range(6):
            producer.send("lines", "x")
            producer.flush()
    assert [each.end for each in log.offsets("lines")] == [2, 2, 2]


def test_an_explicit_partition_wins(log: EmbeddedLog) -> None:
    with Producer(log) as producer:
        for key in "abcdef":
            producer.send("lines", 1, key=key, partition=2)
        with pytest.raises(BrokerError, match=r"'lines' has no partition 3; it has 3, counted from 0"):
            producer.send("lines", 1, partition=3)
    assert [each.end for each in log.offsets("lines")] == [0, 0, 6]


def test_linger_sends_by_itself(log: EmbeddedLog) -> None:
    arrived = threading.Event()
    with Producer(log, linger="10 ms") as producer:
        producer.send("lines", "x", on_delivery=lambda delivery: arrived.set())
        assert arrived.wait(30)


def test_a_full_batch_does_not_linger(log: EmbeddedLog) -> None:
    arrived = threading.Event()
    with Producer(log, linger="1 h", batch_records=2) as producer:
        producer.send("lines", "x", on_delivery=lambda delivery: arrived.set())
        producer.send("lines", "y")
        assert arrived.wait(30)


def test_deliveries_tell_where_records_are(log: EmbeddedLog) -> None:
    seen: list[Delivery] = []
    with Producer(log, batch_records=4) as producer:
        for number in range(10):
            producer.send("lines", number, partition=number % 2, on_delivery=seen.append)
    found = {(record.partition, record.offset) for record in everything(log)}
    assert {(delivery.partition, delivery.offset) for delivery in seen} == found
    assert len(seen) == 10


def test_a_callback_that_raises_hurts_nobody(log: EmbeddedLog, caplog: pytest.LogCaptureFixture) -> None:
    with Producer(log) as producer:
        producer.send("lines", 1, on_delivery=lambda delivery: 1 / 0)  # type: ignore[arg-type]
    assert len(everything(log)) == 1
    assert "producer.on_delivery_failed" in caplog.text


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"topic": "line"}, UnknownTopicError, "did you mean 'lines'"),
        ({"value": "x" * 1000}, RecordTooLargeError, "a record of 1002 bytes is too large for topic 'lines'"),
        ({"value": object()}, SerdeError, "cannot encode value <object"),
        ({"key": object()}, SerdeError, "cannot encode key <object"),
        ({"timestamp": 1.5}, DefinitionError, "timestamp 1.5 is not a whole number"),
    ],
)
def test_what_is_wrong_with_a_record_is_said_at_once(
    log: EmbeddedLog, arguments: dict[str, Any], error: type[Exception], message: str
) -> None:
    with Producer(log) as producer:
        with pytest.raises(error, match=message):
            producer.send(**{"topic": "lines", **arguments})
        producer.send("lines", "good")
    assert [record.value for record in everything(log)] == ["good"]


def test_a_full_buffer_blocks_until_there_is_room(log: EmbeddedLog) -> None:
    shaky = Shaky(log)
    shaky.gate.clear()
    with Producer(shaky, buffer_bytes=1000, value=bytes) as producer:
        producer.send("lines", b"x" * 600)
        sender = threading.Thread(target=producer.send, args=("lines", b"y" * 600))
        sender.start()
        sender.join(0.1)
        assert sender.is_alive()
        shaky.gate.set()
        sender.join(30)
        assert not sender.is_alive()
    assert len(everything(log, value=bytes)) == 2


def test_a_full_buffer_raises_if_asked_to(log: EmbeddedLog) -> None:
    shaky = Shaky(log)
    shaky.gate.clear()
    with Producer(shaky, buffer_bytes=1000, value=bytes, when_full="raise") as producer:
        producer.send("lines", b"x" * 600)
        with pytest.raises(BufferFullError, match="664 bytes are waiting to be sent, the buffer takes 1000"):
            producer.send("lines", b"y" * 600)
        shaky.gate.set()
        producer.flush()
        producer.send("lines", b"z" * 600)
    assert sorted(record.value[:1] for record in everything(log, value=bytes)) == [b"x", b"z"]


def test_a_full_buffer_drops_and_counts_if_asked_to(log: EmbeddedLog) -> None:
    shaky = Shaky(log)
    shaky.gate.clear()
    with Producer(shaky, buffer_bytes=1000, value=bytes, when_full="drop") as producer:
        for _ in range(5):
            producer.send("lines", b"x" * 600)
        assert producer.dropped == 4
        shaky.gate.set()
    assert len(everything(log, value=bytes)) == 1


def test_a_record_larger_than_the_buffer_passes_alone(log: EmbeddedLog) -> None:
    with Producer(log, buffer_bytes=10, value=bytes) as producer:
        for _ in range(3):
            producer.send("lines", b"x" * 100)
    assert len(everything(log, value=bytes)) == 3


def test_a_passing_error_is_told_and_the_records_sent_again(log: EmbeddedLog) -> None:
    shaky = Shaky(log, BrokerUnavailableError("away"))
    shaky.gate.clear()
    with Producer(shaky) as producer:
        producer.send("lines", 1)
        threading.Timer(0.05, shaky.gate.set).start()
        with pytest.raises(BrokerUnavailableError):
            producer.flush()
        producer.flush()
        assert producer.failed == 0
    assert shaky.calls == 2
    assert [record.value for record in everything(log)] == [1]


def test_a_lasting_error_is_raised_by_whatever_comes_next(log: EmbeddedLog) -> None:
    calls: list[Callable[[Producer], None]] = [lambda p: p.send("lines", 2), Producer.flush, Producer.close]
    for call in calls:
        producer = Producer(Shaky(log, BrokerError("no")))
        lost: SimpleQueue[Delivery] = SimpleQueue()
        producer.send("lines", 1, on_delivery=lost.put)
        assert isinstance(lost.get(timeout=30).error, BrokerError)
        with pytest.raises(BrokerError, match="no"):
            call(producer)
        assert producer.failed == 1
        producer.close()
    assert everything(log) == []


def test_without_acks_errors_are_only_counted(log: EmbeddedLog) -> None:
    with Producer(Shaky(log, BrokerError("no")), acks="none") as producer:
        producer.send("lines", 1)
        producer.flush()
        producer.send("lines", 2)
    assert producer.failed == 1
    assert [record.value for record in everything(log)] == [2]


def test_a_topic_deleted_under_a_producer_is_an_error_not_a_loss(log: EmbeddedLog) -> None:
    producer = Producer(log, linger="1 h")
    producer.send("lines", 1)
    log.delete_topic("lines")
    with pytest.raises(UnknownTopicError):
        producer.close()
    assert producer.failed == 1


def test_a_named_producer_stores_once_though_it_sends_twice(log: EmbeddedLog, monkeypatch: pytest.MonkeyPatch) -> None:
    append_once = log.append_once
    answers = iter([BrokerUnavailableError("the answer was lost")])

    def lose_an_answer(*args: Any, **options: Any) -> None:
        append_once(*args, **options)
        for error in answers:
            raise error

    monkeypatch.setattr(log, "append_once", lose_an_answer)
    with Producer(log, name="loader") as producer:
        producer.send("lines", 1)
        with pytest.raises(BrokerUnavailableError):
            producer.flush()
        producer.flush()
    assert [record.value for record in everything(log)] == [1]


def test_threads_share_a_producer(log: EmbeddedLog) -> None:
    with Producer(log, batch_records=100) as producer:

        def work(number: int) -> None:
            for row in range(500):
                producer.send("lines", [number, row], key=str(number))

        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    records = everything(log)
    for number in range(4):
        assert [r.value[1] for r in records if r.value[0] == number] == list(range(500))


def test_a_closed_producer_says_so(log: EmbeddedLog) -> None:
    producer = Producer(log)
    producer.close()
    producer.close()
    with pytest.raises(BrokerError, match="the producer is closed"):
        producer.send("lines", 1)


@pytest.mark.parametrize("options", [{"acks": "all"}, {"when_full": "explode"}, {"linger": "soon"}])
def test_settings_are_checked(log: EmbeddedLog, options: dict[str, Any]) -> None:
    with pytest.raises(DefinitionError):
        Producer(log, **options)
