"""First and last offsets of partitions, and offsets by timestamp, for readers of committed records."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from time import monotonic, sleep
from typing import Any

from confluent_kafka import IsolationLevel, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from millstream.broker import Offsets
from millstream.errors import BrokerError, BrokerUnavailableError, OffsetOutOfRangeError, UnknownTopicError
from millstream.kafka.clients import REQUEST_SECONDS, Clients
from millstream.kafka.topics import KafkaTopics

_RETRY_DELAY_SECONDS = 0.1
_COMMITTED = IsolationLevel.READ_COMMITTED


class OffsetLookup:
    """Looks up offsets; a partition ends at the start of its oldest open transaction."""

    def __init__(self, clients: Clients, topics: KafkaTopics) -> None:
        self._clients = clients
        self._topics = topics
        self._partitions: dict[str, int] = {}

    def bounds(self, topic: str) -> list[Offsets]:
        """Return the first and the next offset of each partition."""
        deadline = monotonic() + REQUEST_SECONDS
        while True:
            bounds = self._known_bounds(topic)
            if bounds is None:
                self._partitions[topic] = self._topics.partitions(topic)
                bounds = self._known_bounds(topic) or [Offsets(begin=-1, end=-1)]
            unknown = next((number for number, pair in enumerate(bounds) if min(pair.begin, pair.end) < 0), None)
            if unknown is None:
                return bounds
            # the client reports no error for a leader that is lost while it is asked
            if monotonic() > deadline:
                raise BrokerUnavailableError(
                    f"{topic}[{unknown}] has had no leader for {REQUEST_SECONDS:.0f} s",
                    hint="check that enough brokers are running; the app continues when one takes over",
                    topic=topic,
                )
            sleep(_RETRY_DELAY_SECONDS)

    def _known_bounds(self, topic: str) -> list[Offsets] | None:
        """Return the bounds, or None if it is not known, or no longer true, how many partitions the topic has.

        The number of partitions is looked up together with the offsets: a batch waits for one answer instead of three.
        """
        count = self._partitions.get(topic)
        if count is None:
            return None
        partitions = [TopicPartition(topic, number) for number in range(count)]

        def send(admin: AdminClient) -> Future[list[Any]]:
            description = admin.describe_topics(TopicCollection([topic]), request_timeout=REQUEST_SECONDS)[topic]
            begins, ends = (
                admin.list_offsets(
                    dict.fromkeys(partitions, spec), isolation_level=_COMMITTED, request_timeout=REQUEST_SECONDS
                )
                for spec in (OffsetSpec.earliest(), OffsetSpec.latest())
            )
            return _gather([description, *(of[partition] for of in (begins, ends) for partition in partitions)])

        try:
            description, *offsets = self._clients.request(send, f"find the offsets of topic {topic!r}", topic)
        except UnknownTopicError:
            self._partitions.pop(topic, None)
            return None
        if len(description.partitions) != count:
            self._partitions.pop(topic, None)
            return None
        pairs = zip(offsets[:count], offsets[count:], strict=True)
        return [Offsets(begin=begin.offset, end=end.offset) for begin, end in pairs]

    def at_timestamp(self, topic: str, partition: int, timestamp: int) -> int | None:
        """Return the offset of the first record with ``timestamp`` or later, or None if there is none."""
        self.check_partition(topic, partition)
        spec = OffsetSpec.for_timestamp(max(0, timestamp))
        offset = self._list_offsets(topic, {TopicPartition(topic, partition): spec})[0]
        return offset if offset >= 0 else None

    def delete_before(self, topic: str, partition: int, offset: int) -> None:
        """Delete the records of a partition before ``offset``."""
        self.check_partition(topic, partition)
        end = self.bounds(topic)[partition].end
        if offset > end:
            raise OffsetOutOfRangeError(
                f"{topic}[{partition}] ends at {end}, before {offset}", hint="choose an earlier offset", topic=topic
            )
        position = TopicPartition(topic, partition, offset)
        self._clients.request(
            lambda admin: admin.delete_records([position], request_timeout=REQUEST_SECONDS)[position],
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
                    hint=f"it has {count}, numbered from 0",
                    topic=topic,
                    partition=partition,
                )

    def _list_offsets(self, topic: str, specs: Mapping[TopicPartition, Any]) -> list[int]:
        """Return the specified offset of each partition, looked up in one call."""

        def send(admin: AdminClient) -> Future[list[Any]]:
            futures = admin.list_offsets(dict(specs), isolation_level=_COMMITTED, request_timeout=REQUEST_SECONDS)
            return _gather([futures[partition] for partition in specs])

        results = self._clients.request(send, f"find the offsets of topic {topic!r}", topic)
        return [result.offset for result in results]


def _gather(futures: Sequence[Future[Any]]) -> Future[list[Any]]:
    """Return one future for several responses."""
    combined: Future[list[Any]] = Future()
    remaining = len(futures)
    lock = threading.Lock()

    def on_done(_: Future[Any]) -> None:
        nonlocal remaining
        with lock:
            remaining -= 1
            is_last = remaining == 0
        if is_last:
            error = next((future.exception() for future in futures if future.exception() is not None), None)
            if error is not None:
                combined.set_exception(error)
            else:
                combined.set_result([future.result() for future in futures])

    for future in futures:
        future.add_done_callback(on_done)
    return combined
