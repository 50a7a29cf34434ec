"""Accept, release and reject records, implicitly and explicitly."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from tests.queues.conftest import Queue

from millstream.errors import BrokerError, LockLostError, MillstreamError, UnknownTopicError
from millstream.queues.share_consumer import OnAcknowledged
from millstream.records import TopicPartition

Result = tuple[list[int], str | None]


def recorder(results: list[Result]) -> OnAcknowledged:
    def record(_: TopicPartition, offsets: Sequence[int], error: MillstreamError | None) -> None:
        results.append((list(offsets), None if error is None else type(error).__name__))

    return record


def test_acknowledgement_commit_callback_successful_acknowledgement(queue: Queue) -> None:
    """By the next poll, by commit and by close."""
    results: list[Result] = []
    consumer = queue.join(acknowledge="implicit", on_acknowledged=recorder(results))
    queue.send("a")
    queue.take(consumer)
    assert queue.is_empty(consumer)
    assert results == [([0], None)]
    queue.send("b")
    queue.take(consumer)
    consumer.commit()
    assert results[1:] == [([1], None)]


def test_acknowledgement_commit_callback_on_close(queue: Queue) -> None:
    results: list[Result] = []
    consumer = queue.join(on_acknowledged=recorder(results))
    queue.send("a")
    consumer.accept(queue.take(consumer)[0])
    consumer.close()
    assert results == [([0], None)]


def test_acknowledgement_commit_callback_invalid_record_state_exception(queue: Queue) -> None:
    results: list[Result] = []
    slow = queue.join(lock=queue.lock, on_acknowledged=recorder(results))
    queue.send("a")
    record = queue.take(slow)[0]
    queue.take(queue.join(lock=queue.lock))  # it comes once the lock of the first has ended
    slow.accept(record)
    slow.commit()
    assert results == [([0], "LockLostError")]


def test_acknowledgement_commit_callback_calls_share_consumer_disallowed(queue: Queue) -> None:
    errors: list[BrokerError] = []

    def poll_again(*_: object) -> None:
        with pytest.raises(BrokerError, match="cannot use its consumer") as raised:
            consumer.poll()
        errors.append(raised.value)

    consumer = queue.join(on_acknowledged=poll_again)
    queue.send("a")
    consumer.accept(queue.take(consumer)[0])
    consumer.commit()
    assert len(errors) == 1


def test_acknowledgement_commit_callback_throws_exception(queue: Queue) -> None:
    def fail(*_: object) -> None:
        raise ValueError("of the user")

    consumer = queue.join(acknowledge="implicit", on_acknowledged=fail)
    queue.send("a")
    queue.take(consumer)
    assert queue.is_empty(consumer)


def test_explicit_acknowledge_success(queue: Queue) -> None:
    """ExplicitAcknowledgeSuccess, …CommitSuccess and ConfiguredExplicitAcknowledgeCommitSuccess."""
    consumer = queue.join()
    queue.send("a")
    consumer.accept(queue.take(consumer)[0])
    assert consumer.commit() == {TopicPartition(queue.topic, 0): 1}
    queue.send("b")
    assert [record.value for record in queue.take(consumer)] == ["b"]


def test_explicit_acknowledgement_commit_async(queue: Queue) -> None:
    """A released record goes to another member."""
    first = queue.join()
    queue.send("a", "b", "c")
    a, b, c = queue.take(first, 3)
    first.accept(a)
    first.accept(b)
    first.release(c)
    second = queue.join()
    first.commit()
    assert [record.offset for record in queue.take(second)] == [2]


def test_explicit_acknowledgement_commit_async_partial_batch(queue: Queue) -> None:
    results: list[Result] = []
    consumer = queue.join(on_acknowledged=recorder(results))
    queue.send("a", "b", "c")
    a, b, c = queue.take(consumer, 3)
    consumer.accept(a)
    consumer.accept(b)
    with pytest.raises(BrokerError, match="@2 has no answer yet; accept, release or reject"):
        consumer.poll()
    consumer.accept(c)
    queue.send("d")
    assert [record.offset for record in queue.take(consumer)] == [3]
    assert sorted(offset for offsets, _ in results for offset in offsets) == [0, 1, 2]


def test_explicit_acknowledge_release_poll_accept(queue: Queue) -> None:
    consumer = queue.join()
    queue.send("a")
    consumer.release(queue.take(consumer)[0])
    again = queue.take(consumer)[0]
    assert (again.offset, consumer.delivery_count(again)) == (0, 2)
    consumer.accept(again)
    assert queue.is_empty(consumer)


def test_explicit_acknowledge_release_accept(queue: Queue) -> None:
    """The last answer counts."""
    consumer = queue.join()
    queue.send("a")
    record = queue.take(consumer)[0]
    consumer.release(record)
    consumer.accept(record)
    assert queue.is_empty(consumer)


def test_explicit_acknowledge_release_close(queue: Queue) -> None:
    consumer = queue.join()
    queue.send("a")
    consumer.release(queue.take(consumer)[0])
    consumer.close()
    consumer.close()
    with pytest.raises(BrokerError, match="closed"):
        consumer.poll()


def test_explicit_acknowledge_throws_not_in_batch(queue: Queue) -> None:
    consumer = queue.join()
    queue.send("a", "b")
    first = queue.take(consumer, max_records=1)[0]
    consumer.accept(first)
    queue.take(consumer)
    with pytest.raises(BrokerError, match="@0 is not held by this consumer"):
        consumer.accept(first)


def test_implicit_acknowledge_fails_explicit(queue: Queue) -> None:
    """Also ConfiguredImplicitAcknowledgeExplicitAcknowledgeFails."""
    consumer = queue.join(acknowledge="implicit")
    queue.send("a")
    record = queue.take(consumer)[0]
    for answer in (consumer.accept, consumer.release, consumer.reject):
        with pytest.raises(BrokerError, match="accepted by the next poll; to answer yourself"):
            answer(record)


def test_implicit_acknowledge_commit_sync(queue: Queue) -> None:
    """Also ImplicitAcknowledgementCommitAsync."""
    consumer = queue.join(acknowledge="implicit")
    queue.send("a")
    queue.take(consumer)
    assert consumer.commit() == {TopicPartition(queue.topic, 0): 1}
    assert consumer.commit() == {}
    assert queue.is_empty(consumer)


def test_acquisition_lock_timeout_on_consumer(queue: Queue) -> None:
    consumer = queue.join(lock=queue.lock)
    queue.send("a", "b")
    accepted, late = queue.take(consumer, 2)
    consumer.accept(accepted)
    consumer.commit()
    other = queue.join(lock=queue.lock)
    again = queue.take(other)[0]
    assert (again.offset, other.delivery_count(again)) == (1, 2)
    consumer.accept(late)
    with pytest.raises(LockLostError):
        consumer.commit()


def test_commit_sync_fails_for_deleted_topic(queue: Queue) -> None:
    consumer = queue.join()
    queue.send("a")
    consumer.accept(queue.take(consumer)[0])
    queue.broker.delete_topic(queue.topic)
    with pytest.raises(UnknownTopicError):
        consumer.commit()


def test_a_loop_accepts_what_was_not_answered(queue: Queue) -> None:
    queue.send_many(5)
    values = []
    with queue.join(timeout="30 s") as consumer:
        for record in consumer:
            values.append(record.value)
            if record.value == "3" and consumer.delivery_count(record) == 1:
                consumer.release(record)
            if len(values) == 6:
                consumer.accept(record)
                break
    assert values == ["0", "1", "2", "3", "4", "3"]
    assert queue.is_empty(queue.join())


def test_a_loop_that_is_left_has_accepted_all_but_the_current_record(queue: Queue) -> None:
    queue.send_many(5)
    with queue.join() as consumer:
        for record in consumer:
            if record.value == "2":
                break
        consumer.accept(record)
        assert next(iter(consumer)).value == "3"  # another loop goes on where the first was left
    again = queue.take_all(queue.join(), 2)
    assert sorted(record.value for record in again) == ["3", "4"]
