"""Receive the records of the partitions that a loop follows, before it asks for them.

A loop that keeps up would otherwise ask the broker where its partitions end before each batch, and fetch what it has
just learnt about. One consumer fetches all of them in the background; what it has received is what there is to read.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from time import monotonic
from typing import TYPE_CHECKING

from confluent_kafka import Consumer, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as KafkaPartition

from millstream.broker import RecordChunk
from millstream.kafka.failures import is_group_authorization_error, translate_kafka_errors
from millstream.kafka.reading import chunk_of
from millstream.records import TopicPartition

if TYPE_CHECKING:
    from millstream.kafka.clients import Clients

_ACTION = "receive records"
_MAX_MESSAGES = 10_000
_POLL_SECONDS = 0.2
_RECEIVE_SECONDS = 2.0  # after that another client reads the records, or says what is wrong
_SETTINGS = {
    "fetch.wait.max.ms": 500,  # the broker responds as soon as there are records
    "fetch.queue.backoff.ms": 5,
    "fetch.message.max.bytes": 2_097_152,
    "queued.min.messages": 5_000,  # a larger backlog is not for a loop that keeps up
    "queued.max.messages.kbytes": 16_384,
}


class _Tail:
    """What was received of a partition: all records from ``start`` to ``end``."""

    __slots__ = ("end", "messages", "offsets", "start")

    def __init__(self, start: int) -> None:
        self.start = self.end = start
        self.messages: list[Message] = []
        self.offsets: list[int] = []

    def add(self, message: Message, offset: int) -> None:
        self.messages.append(message)
        self.offsets.append(offset)
        self.end = offset + 1

    def forget_before(self, offset: int) -> None:
        """Drop what was read before; the last batch is kept until then, since it may run again."""
        count = bisect_left(self.offsets, offset)
        del self.messages[:count], self.offsets[:count]
        self.start = offset


class Arrivals:
    """The received records of some partitions; used by one thread."""

    def __init__(self, clients: Clients) -> None:
        self._clients = clients
        self._consumer: Consumer = clients.consumer(_SETTINGS)
        self._tails: dict[TopicPartition, _Tail] = {}

    def follows(self, positions: Mapping[TopicPartition, int]) -> bool:
        """Whether it receives exactly these partitions, without a gap after these positions."""
        tails = self._tails
        return (
            bool(tails)
            and positions.keys() == tails.keys()
            and all(tails[partition].start <= offset <= tails[partition].end for partition, offset in positions.items())
        )

    def follow(self, positions: Mapping[TopicPartition, int]) -> None:
        """Receive the records of these partitions from these positions on."""
        with translate_kafka_errors(_ACTION):
            self._consumer.assign([KafkaPartition(key.topic, key.partition, at) for key, at in positions.items()])
        self._tails = {partition: _Tail(offset) for partition, offset in positions.items()}

    def stop(self) -> None:
        """Follow no partitions."""
        if self._tails:
            self._tails = {}
            with translate_kafka_errors(_ACTION):
                self._consumer.unassign()

    def close(self) -> None:
        """Close the consumer."""
        self._tails = {}
        self._consumer.close()

    def ends(self) -> dict[TopicPartition, int]:
        """Return the offset up to which the records of each partition were received; empty after an error."""
        self._take(self._consume(0))
        return {partition: tail.end for partition, tail in self._tails.items()}

    def wait(self, positions: Mapping[TopicPartition, int], timeout: float) -> bool:
        """Block until a record at or after a position was received; also return after an error."""
        deadline = monotonic() + timeout
        self._take(self._consume(0))
        while self._tails and not any(self._tails[partition].end > at for partition, at in positions.items()):
            remaining = deadline - monotonic()
            if remaining <= 0:
                return False
            self._take(self._consume(min(remaining, _POLL_SECONDS)))
        return True

    def read(self, partition: TopicPartition, start: int, end: int) -> list[RecordChunk] | None:
        """Return the records with ``start <= offset < end``, or None if they cannot be received here.

        The broker may already have said that there are records which are only about to be received.
        """
        tail = self._tails.get(partition)
        if tail is None:
            return None
        if not tail.start <= start <= tail.end or not self._receive(partition, end):
            self.stop()
            return None
        tail.forget_before(start)
        messages = tail.messages[: bisect_left(tail.offsets, end)]
        return [chunk_of(messages, end)] if messages else []

    def _receive(self, partition: TopicPartition, end: int) -> bool:
        """Wait until the records before an offset were received; return False if that takes too long."""
        deadline = monotonic() + _RECEIVE_SECONDS
        while partition in self._tails and self._tails[partition].end < end and monotonic() < deadline:
            self._take(self._consume(_POLL_SECONDS))
        return partition in self._tails and self._tails[partition].end >= end

    def _consume(self, timeout: float) -> list[Message]:
        try:
            # The client would wait until all requested messages have arrived, so wait for one and take the rest.
            messages = self._consumer.consume(1, timeout) if timeout else []
            return messages + self._consumer.consume(_MAX_MESSAGES, 0) if messages or not timeout else []
        except KafkaException:
            self.stop()
            return []

    def _take(self, messages: list[Message]) -> None:
        """Add messages to the tails; after an error follow nothing, since a look-up or a read says what is wrong."""
        if not messages:
            self._clients.check_authentication(_ACTION)
        for message in messages:
            error, topic, number, offset = message.error(), message.topic(), message.partition(), message.offset()
            if error is not None and is_group_authorization_error(error):
                continue
            tail = None if topic is None or number is None else self._tails.get(TopicPartition(topic, number))
            if tail is None or offset is None or error is not None:
                if tail is None or offset is None or error is None or error.code() != KafkaError._PARTITION_EOF:
                    return self.stop()
                tail.end = max(tail.end, offset)  # control records may come after the last record
            elif offset >= tail.end:
                tail.add(message, offset)
        return None
