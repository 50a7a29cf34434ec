"""Cases of Kafka's ``ShareConsumerTest`` that only the embedded log can run, and what it has beyond Kafka."""

from __future__ import annotations

from typing import Any

import pytest
from tests.queues.conftest import Clock, Queue

from millstream.broker import Output, SharedPartition, ShareGroupInfo, TopicConfig
from millstream.errors import BrokerError, DefinitionError, LockLostError, SerdeError
from millstream.foundation.blocks import block_of
from millstream.log import EmbeddedLog
from millstream.records import TopicPartition


def group_of(queue: Queue) -> ShareGroupInfo:
    assert isinstance(queue.broker, EmbeddedLog)
    return queue.broker.share_group(queue.group)


def progress(queue: Queue) -> SharedPartition:
    return group_of(queue).partitions[0]


def lag(queue: Queue) -> int:
    return progress(queue).waiting + progress(queue).in_flight


def test_poll_records_greater_than_max_bytes(log_queue: Queue) -> None:
    """Also FetchRecordLargerThanMaxPartitionFetchBytes: large records are delivered."""
    large = "x" * 1_000_000
    log_queue.send(large)
    log_queue.send(large)
    assert len(log_queue.take(log_queue.join(), 2)) == 2


def test_poll_in_record_limit_mode(log_queue: Queue) -> None:
    log_queue.send_many(10)
    consumer = log_queue.join(acknowledge="implicit")
    assert len(consumer.poll(max_records=5)) == 5
    assert len(consumer.poll(max_records=5)) == 5


def test_poll_and_explicit_acknowledge_single_message_in_record_limit_mode(log_queue: Queue) -> None:
    log_queue.send_many(10)
    consumer = log_queue.join()
    for offset in range(10):
        record = log_queue.take(consumer, max_records=1)[0]
        assert record.offset == offset
        consumer.accept(record)


def test_explicit_acknowledge_success_in_record_limit_mode(log_queue: Queue) -> None:
    log_queue.send_many(15)
    consumer = log_queue.join()
    for record in log_queue.take(consumer, 10, max_records=10):
        consumer.accept(record)
    log_queue.take(consumer, 5, max_records=10)


def test_explicit_acknowledge_release_accept_in_record_limit_mode(log_queue: Queue) -> None:
    log_queue.send_many(15)
    consumer = log_queue.join()
    for record in log_queue.take(consumer, 10, max_records=10):
        (consumer.release if record.offset % 2 else consumer.accept)(record)
    again = log_queue.take(consumer, 10, max_records=10)
    assert [record.offset for record in again] == [1, 3, 5, 7, 9, 10, 11, 12, 13, 14]


def test_explicit_override_acknowledge_corrupted_message(log_queue: Queue) -> None:
    consumer = log_queue.join(value=int, on_decode_error="fail")
    log_queue.send("1", "2", "three")
    for record in log_queue.take(consumer, 2):
        consumer.accept(record)
    with pytest.raises(SerdeError, match="@2") as raised:
        consumer.poll()
    consumer.reject(raised.value)
    assert log_queue.is_empty(consumer)
    assert [letter.value for letter in log_queue.letters()] == ["three"]


def test_explicit_acknowledge_offset_parameters_error(log_queue: Queue) -> None:
    """Also ExplicitAcknowledgeOffsetThrowsNotException: only an error of the last poll can be rejected, once."""
    consumer = log_queue.join(value=int, on_decode_error="fail")
    log_queue.send("one", "2")
    with pytest.raises(SerdeError) as raised:
        consumer.poll()
    for error in (SerdeError("of another record", topic=log_queue.topic, partition=0, offset=7), SerdeError("of none")):
        with pytest.raises(BrokerError, match=r"not held|not about a record"):
            consumer.reject(error)
    consumer.reject(raised.value)
    log_queue.take(consumer)
    with pytest.raises(BrokerError, match="not held"):
        consumer.reject(raised.value)


def test_a_record_that_cannot_be_decoded_becomes_a_dead_letter(log_queue: Queue) -> None:
    consumer = log_queue.join(value=int)
    log_queue.send("1", "two", "3")
    assert [record.value for record in log_queue.take_all(consumer, 2)] == [1, 3]
    letter = log_queue.letters()[0]
    assert dict(letter.headers)["__streams.errors.offset"] == b"1"


def test_renew_acknowledgement(log_queue: Queue, clock: Clock) -> None:
    """RenewAcknowledgementOnPoll and …OnCommitSync: a renewed record stays with its member, which must answer."""
    consumer, other = log_queue.join(lock="15 s"), log_queue.join(lock="15 s")
    log_queue.send("long")
    record = log_queue.take(consumer)[0]
    for _ in range(5):
        clock.advance(10)
        consumer.renew(record)
        assert log_queue.is_empty(other)
    with pytest.raises(BrokerError, match="@0 has no answer yet"):
        consumer.poll()
    consumer.accept(record)
    assert sum(consumer.commit().values()) == 1
    assert log_queue.is_empty(other)


def test_renew_acknowledgement_invalid_state_record(log_queue: Queue, clock: Clock) -> None:
    consumer = log_queue.join(lock="15 s")
    log_queue.send("a", "b")
    rejected, late = log_queue.take(consumer, 2)
    consumer.reject(rejected)
    with pytest.raises(BrokerError, match="already has an answer"):
        consumer.renew(rejected)
    clock.advance(15)
    with pytest.raises(LockLostError):
        consumer.renew(late)


def test_renew_acknowledgement_disabled(queue: Queue) -> None:
    consumer = queue.join()
    queue.send("a")
    record = queue.take(consumer)[0]
    if not queue.is_kafka:
        consumer.renew(record)
        return
    with pytest.raises(DefinitionError, match="cannot renew a lock; use a longer lock="):
        consumer.renew(record)
    with pytest.raises(DefinitionError, match="cannot delay a record by '1 s'; leave out after"):
        consumer.release(record, after="1 s")


def test_describe_share_group_offsets_for_empty_share_partition(log_queue: Queue) -> None:
    log = log_queue.broker
    assert isinstance(log, EmbeddedLog)
    assert log.share_group_names() == []
    with pytest.raises(BrokerError, match="there is no share group"):
        group_of(log_queue)


def test_share_partition_lag(log_queue: Queue) -> None:
    """SharePartitionLag… of a single consumer and of several: accepted, sent, acquired, released, rejected."""
    first, second = log_queue.join(), log_queue.join()
    log_queue.send("a")
    first.accept(log_queue.take(first)[0])
    first.commit()
    assert lag(log_queue) == 0
    log_queue.send("b")
    assert lag(log_queue) == 1
    record = log_queue.take(second)[0]
    assert (lag(log_queue), progress(log_queue).in_flight) == (1, 1)
    second.release(record)
    second.commit()
    assert (lag(log_queue), progress(log_queue).waiting, progress(log_queue).redelivered) == (1, 1, 1)
    first.reject(log_queue.take(first)[0])
    first.commit()
    assert (lag(log_queue), progress(log_queue).dead) == (0, 1)
    assert len(group_of(log_queue).members) == 2


def test_share_partition_lag_after_alter_share_group_offsets(log_queue: Queue) -> None:
    log = log_queue.broker
    assert isinstance(log, EmbeddedLog)
    log_queue.send_many(105)
    consumer = log_queue.join()
    log_queue.take_all(consumer, 105)
    with pytest.raises(BrokerError, match="1 live members; stop its consumers"):
        log.move_share_group(log_queue.group, {TopicPartition(log_queue.topic, 0): 40})
    consumer.close()
    log.move_share_group(log_queue.group, {TopicPartition(log_queue.topic, 0): 40})
    assert lag(log_queue) == 65


def test_share_partition_lag_after_delete_share_group_offsets(log_queue: Queue) -> None:
    log = log_queue.broker
    assert isinstance(log, EmbeddedLog)
    log_queue.send_many(5)
    consumer = log_queue.join()
    log_queue.take_all(consumer, 5)
    consumer.close()
    log.delete_share_group(log_queue.group)
    assert log.share_group_names() == []
    assert len(log_queue.take(log_queue.join(), 5)) == 5


@pytest.mark.parametrize(("before", "after", "deliveries"), [(5, 3, 3), (3, 5, 5)])
def test_dynamic_delivery_count_limit(log_queue: Queue, before: int, after: int, deliveries: int) -> None:
    """DynamicDeliveryCountLimitDecreaseArchivesRecords and …IncreaseAllowsMoreDeliveries."""
    log_queue.send("a")
    first = log_queue.join(max_deliveries=before)
    for _ in range(2):
        first.release(log_queue.take(first)[0])
    first.commit()
    second = log_queue.join(max_deliveries=after)
    for delivery in range(3, deliveries + 1):
        record = log_queue.take(second)[0]
        assert second.delivery_count(record) == delivery
        second.release(record)
    assert log_queue.is_empty(second)
    assert [letter.value for letter in log_queue.letters()] == ["a"]


def test_a_record_that_is_never_answered_becomes_one_dead_letter(log_queue: Queue, clock: Clock) -> None:
    log_queue.send("poison")
    consumers = [log_queue.join(max_deliveries=2, lock="15 s") for _ in range(3)]
    for consumer in consumers[:2]:
        log_queue.take(consumer)
        clock.advance(15)
    assert log_queue.is_empty(consumers[2])
    letter = log_queue.letters()[0]
    assert dict(letter.headers)["__streams.errors.message"] == b"delivered 2 times without an answer"
    assert progress(log_queue).dead == 1


def test_a_record_that_is_rejected_too_late_is_not_a_dead_letter(log_queue: Queue, clock: Clock) -> None:
    slow, other = log_queue.join(lock="15 s"), log_queue.join(lock="15 s")
    log_queue.send("late", "in time")
    late, in_time = log_queue.take(slow, 2)
    clock.advance(10)
    slow.renew(in_time)
    clock.advance(5)
    other.accept(log_queue.take(other)[0])
    other.commit()
    slow.reject(late)
    slow.reject(in_time)
    with pytest.raises(LockLostError):
        slow.commit()
    assert [letter.value for letter in log_queue.letters()] == ["in time"]


def test_a_released_record_waits_as_long_as_it_should(log_queue: Queue, clock: Clock) -> None:
    consumer = log_queue.join()
    log_queue.send("later", "now")
    later, now = log_queue.take(consumer, 2)
    consumer.release(later, after="1 h")
    consumer.release(now)
    again = log_queue.take(consumer)[0]
    assert again.value == "now"
    consumer.accept(again)
    consumer.commit()
    clock.advance(3_599)
    assert log_queue.is_empty(consumer)
    clock.advance(1)
    assert log_queue.take(consumer)[0].value == "later"


def test_records_that_a_loop_has_not_come_to_are_not_counted_as_delivered(log_queue: Queue) -> None:
    log_queue.send_many(3)
    for delivery in (1, 2):
        with log_queue.join(max_deliveries=2) as consumer:
            record = next(iter(consumer))
            assert (record.value, consumer.delivery_count(record)) == ("0", delivery)
    with log_queue.join(max_deliveries=2) as consumer:
        records = log_queue.take(consumer, 2)
        assert [(record.value, consumer.delivery_count(record)) for record in records] == [("1", 1), ("2", 1)]


def test_compacted_records_do_not_hold_a_group_up(log_queue: Queue) -> None:
    log = log_queue.broker
    assert isinstance(log, EmbeddedLog)
    log.create_topic("rates", TopicConfig(partitions=1, compact=True))
    for number in range(6):
        keys = [b"a", b"b", f"{number}".encode()]
        log.append([Output("rates", 0, block_of(keys, [b"x", b"y", b"z"], [0, 0, 0]))])
    log.clean("rates")
    consumer = log_queue.join(topics="rates")
    number = sum(len(chunk.offsets) for chunk in log.read("rates", 0, 0, 18))
    assert number < 18
    log_queue.take_all(consumer, number)
    assert log_queue.is_empty(consumer)
    assert (progress(log_queue).start, lag(log_queue)) == (18, 0)


def test_a_lock_that_ends_on_compacted_records_is_no_error(log_queue: Queue, clock: Clock) -> None:
    log = log_queue.broker
    assert isinstance(log, EmbeddedLog)
    log.create_topic("rates", TopicConfig(partitions=1, compact=True))
    for _ in range(3):
        log.append([Output("rates", 0, block_of([b"a", b"b"], [b"x", b"y"], [0, 0]))])
    log.clean("rates")
    consumer = log_queue.join(topics="rates", lock="15 s")
    records = consumer.poll()
    assert len(records) < 6
    for record in records:
        consumer.accept(record)
    consumer.commit()  # the offsets without a record are answered by the next poll
    clock.advance(15)
    assert log_queue.is_empty(consumer)
    assert (progress(log_queue).start, progress(log_queue).dead) == (6, 0)


def test_records_deleted_by_retention_are_counted_as_expired(log_queue: Queue) -> None:
    log_queue.send_many(10)
    consumer = log_queue.join()
    consumer.accept(log_queue.take(consumer, max_records=1)[0])
    consumer.commit()
    log_queue.broker.delete_before(log_queue.topic, 0, 6)
    assert (progress(log_queue).expired, progress(log_queue).start, lag(log_queue)) == (5, 6, 4)


def test_a_group_is_either_a_share_group_or_a_consumer_group(log_queue: Queue) -> None:
    log = log_queue.broker
    assert isinstance(log, EmbeddedLog)
    log_queue.join()
    with pytest.raises(DefinitionError, match="is a share group; use share_consumer"):
        log.join_group(log_queue.group, [log_queue.topic])
    log.commit("readers", {TopicPartition(log_queue.topic, 0): 0})
    with pytest.raises(DefinitionError, match="is a consumer group; use consumer"):
        log_queue.join("readers")


@pytest.mark.parametrize(
    "options", [{"lock": "0 s"}, {"max_deliveries": 0}, {"start": "whenever"}, {"dead_letter_topic": "a b"}]
)
def test_settings_out_of_range_are_refused(log_queue: Queue, options: dict[str, Any]) -> None:
    with pytest.raises(DefinitionError):
        log_queue.join(**options)
