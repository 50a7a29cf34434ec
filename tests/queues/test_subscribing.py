"""Which topics a share consumer reads, and where its group starts."""

from __future__ import annotations

from datetime import timedelta
from time import time
from typing import Any

import pytest
from tests.queues.conftest import Queue

from millstream.errors import BrokerError, DefinitionError, InvalidNameError
from millstream.records import Record


def test_poll_no_subscribe_fails(queue: Queue) -> None:
    with pytest.raises(BrokerError, match="reads no topic; subscribe"):
        queue.join(topics=()).poll()


def test_subscribe_poll_unsubscribe_subscribe(queue: Queue) -> None:
    """SubscribeAndPollNoRecords, SubscribePollUnsubscribe and SubscribePollSubscribe."""
    consumer = queue.join()
    assert list(consumer.subscription) == [queue.topic]
    assert queue.is_empty(consumer)
    consumer.unsubscribe()
    assert list(consumer.subscription) == []
    consumer.subscribe(queue.topic)
    assert consumer.subscription == (queue.topic,)
    assert queue.is_empty(consumer)


def test_subscribe_unsubscribe_poll_fails(queue: Queue) -> None:
    consumer = queue.join()
    consumer.unsubscribe()
    with pytest.raises(BrokerError, match="reads no topic"):
        consumer.poll()
    consumer.subscribe([])
    with pytest.raises(BrokerError, match="reads no topic"):
        consumer.poll()


def test_subscription_and_poll_multiple(queue: Queue) -> None:
    """SubscriptionAndPoll and SubscriptionAndPollMultiple."""
    consumer = queue.join(acknowledge="implicit")
    for number in range(3):
        queue.send(str(number))
        assert [record.value for record in queue.take(consumer)] == [str(number)]


def test_subscribe_on_invalid_topic_throws_invalid_topic_exception(queue: Queue) -> None:
    with pytest.raises(InvalidNameError, match="topic abc"):
        queue.join(topics="topic abc")


def test_subscription_followed_by_topic_creation(queue: Queue) -> None:
    consumer = queue.join(topics=f"{queue.topic}-later", start="latest" if not queue.is_kafka else "earliest")
    assert queue.is_empty(consumer)
    queue.create(f"{queue.topic}-later")
    queue.send("late", topic=f"{queue.topic}-later")
    assert [record.value for record in queue.take(consumer)] == ["late"]
    consumer.close()


def test_subscription_and_poll_followed_by_topic_deletion(log_queue: Queue) -> None:
    """Kafka's client goes on with the other topic too, but often only after 30 seconds."""
    other = log_queue.create()
    consumer = log_queue.join(topics=[log_queue.topic, other])
    log_queue.send("a")
    log_queue.send("b", topic=other)
    log_queue.take_all(consumer, 2)
    log_queue.broker.delete_topic(log_queue.topic)
    log_queue.send("c", topic=other)
    assert [record.value for record in log_queue.take_all(consumer, 1)] == ["c"]


def test_acknowledgement_sent_on_subscription_change(queue: Queue) -> None:
    other = queue.create()
    consumer = queue.join()
    queue.send("a")
    queue.send("b", topic=other)
    consumer.accept(queue.take(consumer)[0])
    consumer.subscribe(other)
    consumer.accept(queue.take(consumer)[0])
    assert sum(consumer.commit().values()) == 1
    consumer.close()
    assert queue.is_empty(queue.join(topics=[queue.topic, other]))


def test_headers(queue: Queue) -> None:
    """Headers and HeadersSerializeDeserialize: they come in order, and names may repeat."""
    headers = (("b", b"1"), ("a", None), ("b", b"2"))
    queue.send("x", headers=headers)
    assert queue.take(queue.join())[0].headers == headers


def test_max_poll_records(queue: Queue) -> None:
    queue.send_many(300)
    consumer = queue.join(acknowledge="implicit")
    records: list[Record[Any, Any]] = []
    while len(records) < 300:
        batch = consumer.poll(timeout=30.0, max_records=20)
        assert len(batch) <= 20
        records += batch
    assert [record.offset for record in records] == list(range(300))
    assert [record.value for record in records] == list(map(str, range(300)))


def test_share_auto_offset_reset_default_value(queue: Queue) -> None:
    queue.send("before")
    consumer = queue.join(start="latest")
    assert queue.is_empty(consumer) if not queue.is_kafka else consumer.poll(timeout=3.0) == []
    queue.send("after")
    assert [record.value for record in queue.take(consumer)] == ["after"]


def test_share_auto_offset_reset_earliest_after_lso_movement(queue: Queue) -> None:
    """ShareAutoOffsetResetEarliest and …AfterLsoMovement."""
    queue.send_many(10)
    queue.broker.delete_before(queue.topic, 0, 5)
    assert [record.offset for record in queue.take_all(queue.join(), 5)] == [5, 6, 7, 8, 9]


def test_share_auto_offset_reset_multiple_groups_with_different_value(queue: Queue) -> None:
    queue.send("before")
    late = queue.join(f"{queue.group}-late", start="latest")
    assert late.poll(timeout=3.0 if queue.is_kafka else 0) == []
    assert [record.value for record in queue.take(queue.join())] == ["before"]
    queue.send("after")
    assert [record.value for record in queue.take(late)] == ["after"]


def test_share_auto_offset_reset_by_duration(queue: Queue) -> None:
    now = int(time() * 1000)
    queue.send("old", "recent", "new", times=[now - 7_200_000, now - 1_800_000, now])
    assert [record.value for record in queue.take_all(queue.join(start="1 h"), 2)] == ["recent", "new"]
    assert len(queue.take_all(queue.join(f"{queue.group}-2", start="3 h"), 3)) == 3


def test_share_auto_offset_reset_by_duration_invalid_format(queue: Queue) -> None:
    for start in ("soon", timedelta(hours=-1)):
        with pytest.raises(DefinitionError):
            queue.join(start=start)


def test_lso_movement_by_records_deletion(queue: Queue) -> None:
    consumer = queue.join()
    queue.send_many(10)
    queue.broker.delete_before(queue.topic, 0, 5)
    assert [record.offset for record in queue.take_all(consumer, 5)] == [5, 6, 7, 8, 9]
    queue.send_many(5)
    queue.broker.delete_before(queue.topic, 0, 14)
    assert [record.offset for record in queue.take_all(consumer, 1)] == [14]
    queue.send_many(1)
    queue.broker.delete_before(queue.topic, 0, 16)
    assert queue.is_empty(consumer)
