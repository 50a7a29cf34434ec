"""The producer: batching, backpressure, and errors that are never lost."""

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


def read_all(log: EmbeddedLog, **options: Any) -> list[Record]:
    return list(Consumer(log, topics="lines", stop_at_end=True, **options))


class UnreliableLog(EmbeddedLog):
    """A log whose appends wait for ``gate``, then raise the next of ``errors``."""

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


def test_records_are_stored_with_all_their_parts(log: EmbeddedLog) -> None:
    with Producer(log) as producer:
        producer.send("lines", {"n": 1}, key="a", timestamp=7, headers={"trace": "x", "none": None})
        producer.send("lines", None, key=["k", 2], headers=[("h", b"1"), ("h", b"2")])
    first, second = sorted(read_all(log), key=lambda record: record.key, reverse=True)
    assert (first.key, first.value, first.timestamp) == ("a", {"n": 1}, 7)
    assert first.headers == (("trace", b"x"), ("none", None))
    assert (second.key, second.value, second.headers) == ('["k",2]', None, (("h", b"1"), ("h", b"2")))


def test_the_key_determines_the_partition_and_order_is_kept(log: EmbeddedLog) -> None:
    with Producer(log, batch_records=50) as producer:
        for number in range(1000):
            producer.send("lines", number, key=f"k{number % 17}")
    records = read_all(log)
    assert all(record.partition == partition_of(record.key.encode(), 3) for record in records)
    for key in {record.key for record in records}:
        key_values = [record.value for record in records if record.key == key]
        assert key_values == sorted(key_values)
    assert len(records) == 1000


def test_records_without_a_key_are_distributed_round_robin(log: EmbeddedLog) -> None:
    with Producer(log) as producer:
        for _ in range(6):
            producer.send("lines", "x")
            producer.flush()
    assert [offsets.end for offsets in log.offsets("lines")] == [2, 2, 2]


def test_an_explicit_partition_overrides_the_key(log: EmbeddedLog) -> None:
    with Producer(log) as producer:
        for key in "abcdef":
            producer.send("lines", 1, key=key, partition=2)
        with pytest.raises(BrokerError, match=r"'lines' has no partition 3; it has 3, counted from 0"):
            producer.send("lines", 1, partition=3)
    assert [offsets.end for offsets in log.offsets("lines")] == [0, 0, 6]


def test_records_are_sent_after_the_linger_time(log: EmbeddedLog) -> None:
    delivered = threading.Event()
    with Producer(log, linger="10 ms") as producer:
        producer.send("lines", "x", on_delivery=lambda delivery: delivered.set())
        assert delivered.wait(30)


def test_a_full_batch_is_sent_immediately(log: EmbeddedLog) -> None:
    delivered = threading.Event()
    with Producer(log, linger="1 h", batch_records=2) as producer:
        producer.send("lines", "x", on_delivery=lambda delivery: delivered.set())
        producer.send("lines", "y")
        assert delivered.wait(30)


def test_deliveries_report_partition_and_offset(log: EmbeddedLog) -> None:
    deliveries: list[Delivery] = []
    with Producer(log, batch_records=4) as producer:
        for number in range(10):
            producer.send("lines", number, partition=number % 2, on_delivery=deliveries.append)
    stored = {(record.partition, record.offset) for record in read_all(log)}
    assert {(delivery.partition, delivery.offset) for delivery in deliveries} == stored
    assert len(deliveries) == 10


def test_an_exception_in_a_callback_is_logged(log: EmbeddedLog, caplog: pytest.LogCaptureFixture) -> None:
    with Producer(log) as producer:
        producer.send("lines", 1, on_delivery=lambda delivery: 1 / 0)  # type: ignore[arg-type]
    assert len(read_all(log)) == 1
    assert "producer.on_delivery_failed" in caplog.text


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"topic": "line"}, UnknownTopicError, "did you mean 'lines'"),
        ({"value": "x" * 1000}, RecordTooLargeError, "a record of 1002 bytes is too large for topic 'lines'"),
        ({"value": object()}, SerdeError, "cannot encode value <object"),
        ({"key": object()}, SerdeError, "cannot encode key <object"),
        ({"timestamp": 1.5}, DefinitionError, "timestamp 1.5 is not a whole number"),
        ({"timestamp": 2**63}, DefinitionError, "timestamp 9223372036854775808 is out of range"),
        ({"timestamp": -1}, DefinitionError, "timestamp -1 is out of range"),
        ({"headers": {"attempt": 3}}, DefinitionError, "header 'attempt' has a value of type int"),
        ({"headers": [(b"a", b"x")]}, DefinitionError, "a header's name is of type bytes"),
        ({"headers": {"\ud800": b""}}, DefinitionError, "cannot be encoded as UTF-8"),
        ({"headers": {"a": "\ud800"}}, DefinitionError, "cannot be encoded as UTF-8"),
        ({"headers": [("a", b"b", b"c")]}, DefinitionError, "not pairs of a name and a value"),
        ({"headers": 5}, DefinitionError, "not pairs of a name and a value"),
        ({"headers": {"a": b"x" * 1000}}, RecordTooLargeError, "too large for topic 'lines'"),
    ],
)
def test_an_invalid_record_is_rejected_by_send(
    log: EmbeddedLog, arguments: dict[str, Any], error: type[Exception], message: str
) -> None:
    with Producer(log) as producer:
        producer.send("lines", "before")
        with pytest.raises(error, match=message):
            producer.send(**{"topic": "lines", **arguments})
        producer.send("lines", "good")
    assert sorted(record.value for record in read_all(log)) == ["before", "good"]


def test_a_full_buffer_blocks_until_there_is_space(log: EmbeddedLog) -> None:
    unreliable = UnreliableLog(log)
    unreliable.gate.clear()
    with Producer(unreliable, buffer_bytes=1000, value=bytes) as producer:
        producer.send("lines", b"x" * 600)
        sender = threading.Thread(target=producer.send, args=("lines", b"y" * 600))
        sender.start()
        sender.join(0.1)
        assert sender.is_alive()
        unreliable.gate.set()
        sender.join(30)
        assert not sender.is_alive()
    assert len(read_all(log, value=bytes)) == 2


def test_a_full_buffer_raises_if_configured(log: EmbeddedLog) -> None:
    unreliable = UnreliableLog(log)
    unreliable.gate.clear()
    with Producer(unreliable, buffer_bytes=1000, value=bytes, when_full="raise") as producer:
        producer.send("lines", b"x" * 600)
        with pytest.raises(BufferFullError, match="664 bytes are waiting to be sent, the buffer holds 1000"):
            producer.send("lines", b"y" * 600)
        unreliable.gate.set()
        producer.flush()
        producer.send("lines", b"z" * 600)
    assert sorted(record.value[:1] for record in read_all(log, value=bytes)) == [b"x", b"z"]


def test_a_full_buffer_drops_and_counts_records_if_configured(log: EmbeddedLog) -> None:
    unreliable = UnreliableLog(log)
    unreliable.gate.clear()
    with Producer(unreliable, buffer_bytes=1000, value=bytes, when_full="drop") as producer:
        for _ in range(5):
            producer.send("lines", b"x" * 600)
        assert producer.dropped == 4
        unreliable.gate.set()
    assert len(read_all(log, value=bytes)) == 1


def test_a_record_larger_than_the_buffer_is_sent_alone(log: EmbeddedLog) -> None:
    with Producer(log, buffer_bytes=10, value=bytes) as producer:
        for _ in range(3):
            producer.send("lines", b"x" * 100)
    assert len(read_all(log, value=bytes)) == 3


def test_a_retryable_error_is_raised_and_the_records_are_sent_again(log: EmbeddedLog) -> None:
    unreliable = UnreliableLog(log, BrokerUnavailableError("unavailable"))
    unreliable.gate.clear()
    with Producer(unreliable) as producer:
        producer.send("lines", 1)
        threading.Timer(0.05, unreliable.gate.set).start()
        with pytest.raises(BrokerUnavailableError):
            producer.flush()
        producer.flush()
        assert producer.failed == 0
    assert unreliable.calls == 2
    assert [record.value for record in read_all(log)] == [1]


def test_a_permanent_error_is_raised_by_the_next_call(log: EmbeddedLog) -> None:
    calls: list[Callable[[Producer], None]] = [lambda p: p.send("lines", 2), Producer.flush, Producer.close]
    for call in calls:
        producer = Producer(UnreliableLog(log, BrokerError("rejected")))
        deliveries: SimpleQueue[Delivery] = SimpleQueue()
        producer.send("lines", 1, on_delivery=deliveries.put)
        assert isinstance(deliveries.get(timeout=30).error, BrokerError)
        with pytest.raises(BrokerError, match="rejected"):
            call(producer)
        assert producer.failed == 1
        producer.close()
    assert read_all(log) == []


def test_errors_without_acks_are_only_counted(log: EmbeddedLog) -> None:
    with Producer(UnreliableLog(log, BrokerError("rejected")), acks="none") as producer:
        producer.send("lines", 1)
        producer.flush()
        producer.send("lines", 2)
    assert producer.failed == 1
    assert [record.value for record in read_all(log)] == [2]


def test_deleting_a_topic_with_unsent_records_raises_an_error(log: EmbeddedLog) -> None:
    producer = Producer(log, linger="1 h")
    producer.send("lines", 1)
    log.delete_topic("lines")
    with pytest.raises(UnknownTopicError):
        producer.close()
    assert producer.failed == 1


def test_a_named_producer_stores_records_once_although_it_sends_them_twice(
    log: EmbeddedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    append_once = log.append_once
    errors = iter([BrokerUnavailableError("the response was lost")])

    def append_and_lose_response(*args: Any, **options: Any) -> None:
        append_once(*args, **options)
        for error in errors:
            raise error

    monkeypatch.setattr(log, "append_once", append_and_lose_response)
    with Producer(log, name="loader") as producer:
        producer.send("lines", 1)
        with pytest.raises(BrokerUnavailableError):
            producer.flush()
        producer.flush()
    assert [record.value for record in read_all(log)] == [1]


def test_a_producer_can_be_shared_by_threads(log: EmbeddedLog) -> None:
    with Producer(log, batch_records=100) as producer:

        def send_rows(number: int) -> None:
            for row in range(500):
                producer.send("lines", [number, row], key=str(number))

        threads = [threading.Thread(target=send_rows, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    records = read_all(log)
    for number in range(4):
        assert [r.value[1] for r in records if r.value[0] == number] == list(range(500))


def test_a_closed_producer_raises_an_error(log: EmbeddedLog) -> None:
    producer = Producer(log)
    producer.close()
    producer.close()
    with pytest.raises(BrokerError, match="the producer is closed"):
        producer.send("lines", 1)


@pytest.mark.parametrize("options", [{"acks": "all"}, {"when_full": "explode"}, {"linger": "soon"}])
def test_invalid_options_are_rejected(log: EmbeddedLog, options: dict[str, Any]) -> None:
    with pytest.raises(DefinitionError):
        Producer(log, **options)
