"""First and last offsets of partitions, and offsets by timestamp, for readers of committed records."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from time import monotonic, sleep
from typing import Any

from confluent_kafka import IsolationLevel, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from millstream.broker import Offsets
from millstream.errors import BrokerError, BrokerUnavailableError, OffsetOutOfRangeError
from millstream.kafka.clients import LOOKUP_SECONDS, REQUEST_SECONDS, Clients
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
        count = self._topics.partitions(topic)
        begins = self._known_offsets(topic, count, OffsetSpec.earliest())
        ends = self._known_offsets(topic, count, OffsetSpec.latest())
        return [Offsets(begin=begin, end=end) for begin, end in zip(begins, ends, strict=True)]

    def ends(self, topic: str, partitions: int) -> list[int]:
        """Return the next offset of the first ``partitions`` partitions; one request instead of three for bounds."""
        return self._known_offsets(topic, partitions, OffsetSpec.latest())

    def _known_offsets(self, topic: str, count: int, spec: OffsetSpec) -> list[int]:
        """Return an offset of each partition; wait if one has no leader, for which the client reports no error."""
        specs = dict.fromkeys([TopicPartition(topic, number) for number in range(count)], spec)
        deadline = monotonic() + REQUEST_SECONDS
        while True:
            offsets = self._list_offsets(topic, specs)
            unknown = next((number for number, offset in enumerate(offsets) if offset < 0), None)
            if unknown is None:
                return offsets
            if monotonic() > deadline:
                raise BrokerUnavailableError(
                    f"{topic}[{unknown}] has had no leader for {REQUEST_SECONDS:.0f} s",
                    hint="check that enough brokers are running; the app continues when one takes over",
                    topic=topic,
                )
            sleep(_RETRY_DELAY_SECONDS)

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

        def send(admin: AdminClient) -> Future[list[int]]:
            futures = admin.list_offsets(dict(specs), isolation_level=_COMMITTED, request_timeout=REQUEST_SECONDS)
            return _gather([futures[partition] for partition in specs])

        action = f"find the offsets of topic {topic!r}"
        return self._clients.request(send, action, topic, attempt_seconds=LOOKUP_SECONDS)


def _gather(futures: Sequence[Future[Any]]) -> Future[list[int]]:
    """Return one future for the offsets of several responses."""
    combined: Future[list[int]] = Future()
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
                combined.set_result([future.result().offset for future in futures])

    for future in futures:
        future.add_done_callback(on_done)
    return combined
