"""Where partitions begin and end, for readers of committed records."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from confluent_kafka import IsolationLevel, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from millstream.broker import Offsets
from millstream.errors import BrokerError, OffsetOutOfRangeError
from millstream.kafka.clients import REQUEST_SECONDS, Clients
from millstream.kafka.topics import Topics

_COMMITTED = IsolationLevel.READ_COMMITTED


class OffsetLookup:
    """Answers questions about offsets; the end of a partition is where the oldest open transaction begins."""

    def __init__(self, clients: Clients, topics: Topics) -> None:
        self._clients = clients
        self._topics = topics
        self._partitions: dict[str, int] = {}

    def bounds(self, topic: str) -> list[Offsets]:
        """Return begin and end of each partition."""
        places = [TopicPartition(topic, number) for number in range(self._topics.partitions(topic))]
        begins = self._found(topic, dict.fromkeys(places, OffsetSpec.earliest()))
        ends = self._found(topic, dict.fromkeys(places, OffsetSpec.latest()))
        return [Offsets(begin=begin, end=end) for begin, end in zip(begins, ends, strict=True)]

    def at(self, topic: str, partition: int, timestamp: int) -> int | None:
        """Return the first offset whose record has ``timestamp`` or later, or None if there is none."""
        self.check_partition(topic, partition)
        place = TopicPartition(topic, partition)
        found = self._found(topic, {place: OffsetSpec.for_timestamp(max(0, timestamp))})[0]
        return found if found >= 0 else None

    def delete_before(self, topic: str, partition: int, offset: int) -> None:
        """Forget the records of a partition before ``offset``."""
        self.check_partition(topic, partition)
        end = self.bounds(topic)[partition].end
        if offset > end:
            raise OffsetOutOfRangeError(
                f"{topic}[{partition}] ends at {end}, before {offset}", hint="choose an earlier offset", topic=topic
            )
        place = TopicPartition(topic, partition, offset)
        self._clients.ask(
            lambda admin: admin.delete_records([place], request_timeout=REQUEST_SECONDS)[place],
            f"delete records of topic {topic!r}",
            topic,
        )

    def check_partition(self, topic: str, partition: int) -> None:
        """Refuse a partition that the topic does not have."""
        if not 0 <= partition < self._partitions.get(topic, 0):
            count = self._partitions[topic] = self._topics.partitions(topic)
            if not 0 <= partition < count:
                raise BrokerError(
                    f"topic {topic!r} has no partition {partition!r}",
                    hint=f"it has {count}, counted from 0",
                    topic=topic,
                    partition=partition,
                )

    def _found(self, topic: str, wanted: Mapping[TopicPartition, Any]) -> list[int]:
        """Return the offset that is wanted of each partition; they are asked for at the same time."""

        def request(admin: AdminClient) -> Future[list[int]]:
            futures = admin.list_offsets(dict(wanted), isolation_level=_COMMITTED, request_timeout=REQUEST_SECONDS)
            return gathered([futures[place] for place in wanted])

        return self._clients.ask(request, f"find the offsets of topic {topic!r}", topic)


def gathered(futures: Sequence[Future[Any]]) -> Future[list[int]]:
    """Return one future for the offsets of several answers."""
    whole: Future[list[int]] = Future()
    left = len(futures)
    lock = threading.Lock()

    def one_more(_: Future[Any]) -> None:
        nonlocal left
        with lock:
            left -= 1
            is_last = left == 0
        if is_last:
            error = next((each.exception() for each in futures if each.exception() is not None), None)
            if error is not None:
                whole.set_exception(error)
            else:
                whole.set_result([each.result().offset for each in futures])

    for each in futures:
        each.add_done_callback(one_more)
    return whole
