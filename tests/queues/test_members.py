"""Several members and groups, redelivery and its limit."""

from __future__ import annotations

from collections import Counter
from threading import Thread
from time import monotonic
from typing import Any

from tests.queues.conftest import SECONDS, Queue

from millstream.queues.share_consumer import ShareConsumer


def consume_until(consumers: list[ShareConsumer[Any, Any]], seen: Counter[int], number: int) -> None:
    """Let each consumer accept records in its own thread until that many have come."""
    deadline = monotonic() + SECONDS

    def consume(consumer: ShareConsumer[Any, Any]) -> None:
        while sum(seen.values()) < number and monotonic() < deadline:
            for record in consumer.poll(timeout=0.2, max_records=100):
                consumer.accept(record)
                seen[record.offset] += 1
        consumer.commit()

    threads = [Thread(target=consume, args=(consumer,)) for consumer in consumers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_multiple_consumers_with_different_group_ids(queue: Queue) -> None:
    first, second = queue.join(), queue.join(f"{queue.group}-2")
    queue.send_many(3)
    queue.take_all(first, 3)
    queue.send_many(2)
    queue.take_all(first, 2)
    queue.take_all(second, 5)


def test_multiple_consumers_in_group_sequential_consumption(queue: Queue) -> None:
    queue.send_many(200)
    first, second = queue.join(), queue.join()
    seen = [record.offset for record in queue.take_all(first, 100, max_records=50)]
    seen += [record.offset for record in queue.take_all(second, 100, max_records=50)] if not queue.is_kafka else []
    consume_until([first], rest := Counter(seen), 200)
    assert rest == Counter(range(200))


def test_multiple_consumers_in_group_concurrent_consumption(queue: Queue) -> None:
    consumers = [queue.join() for _ in range(4)]
    for _ in range(4):
        queue.send_many(250)
    consume_until(consumers, seen := Counter[int](), 1_000)
    assert seen == Counter(range(1_000))


def test_multiple_consumers_in_multiple_groups_concurrent_consumption(queue: Queue) -> None:
    queue.send_many(400)
    for group in range(3):
        consumers = [queue.join(f"{queue.group}-{group}") for _ in range(2)]
        consume_until(consumers, seen := Counter[int](), 400)
        assert seen == Counter(range(400))


def test_consumer_close_in_group_sequential(queue: Queue) -> None:
    """Closing releases what was not answered, and exactly that comes again."""
    queue.send_many(20)
    first = queue.join()
    records = queue.take(first, 20)
    for record in records[:12]:
        first.accept(record)
    first.close()
    assert sorted(record.offset for record in queue.take_all(queue.join(), 8)) == list(range(12, 20))


def test_multiple_consumers_in_group_failure_concurrent_consumption(queue: Queue) -> None:
    queue.send_many(1_000)
    leaving = queue.join()
    assert leaving.poll(timeout=SECONDS)
    consumers = [queue.join() for _ in range(2)]
    leaving.close()
    consume_until(consumers, seen := Counter[int](), 1_000)
    assert seen == Counter(range(1_000))


def test_delivery_count_different_behavior_when_closing_session_with_explicit_acknowledgement(queue: Queue) -> None:
    queue.send("released", "left")
    consumer = queue.join()
    consumer.release(queue.take(consumer, 2)[0])
    consumer.close()
    again = queue.join()
    counts: dict[str, int] = {}
    while len(counts) < 2:
        for record in again.poll(timeout=SECONDS):
            counts[record.value] = again.delivery_count(record)
            again.accept(record)
    assert counts == {"released": 2, "left": 2}


def test_behavior_on_delivery_count_boundary(queue: Queue) -> None:
    queue.send("a")
    first = queue.join(max_deliveries=3)
    first.release(queue.take(first)[0])
    assert first.delivery_count(queue.take(first)[0]) == 2
    first.close()
    last = queue.join(max_deliveries=3)
    record = queue.take(last)[0]
    assert last.delivery_count(record) == 3
    last.release(record, error=ValueError("of the job"))
    assert queue.is_empty(last)
    letter = queue.letters()[0]
    assert letter.value == "a"
    headers = dict(letter.headers)
    assert headers["__streams.errors.message"] == b"of the job"
    assert headers["__dlq.errors.group"] == queue.group.encode()


def test_complex_share_consumer(queue: Queue) -> None:
    """Each record is released once and then accepted."""
    queue.send_many(200)
    consumer = queue.join()
    reads, accepted = 0, Counter[int]()
    while sum(accepted.values()) < 200:
        for record in consumer.poll(timeout=SECONDS, max_records=40):
            reads += 1
            if consumer.delivery_count(record) == 1:
                consumer.release(record)
            else:
                consumer.accept(record)
                accepted[record.offset] += 1
    assert (reads, accepted) == (400, Counter(range(200)))


def test_rejected_records_become_dead_letters_and_do_not_come_again(queue: Queue) -> None:
    """ShareConsumerDLQTest: exactly the rejected ones, with the key, the value and the headers of the record."""
    queue.send("good", "bad", "worse", headers=(("trace", b"7"),))
    consumer = queue.join()
    good, bad, worse = queue.take(consumer, 3)
    consumer.accept(good)
    consumer.reject(bad, "no address")
    consumer.reject(worse, ValueError("no name"))
    assert queue.is_empty(consumer)
    letters = queue.letters()
    assert [letter.value for letter in letters] == ["bad", "worse"]
    headers = dict(letters[0].headers)
    assert (headers["trace"], headers["__streams.errors.message"]) == (b"7", b"no address")
    assert (headers["__dlq.errors.topic"], headers["__dlq.errors.offset"]) == (queue.topic.encode(), b"1")
    assert dict(letters[1].headers)["__streams.errors.exception"] == b"builtins.ValueError"
