"""Wait for new records with a consumer that fetches only at the ends of partitions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import monotonic
from typing import TYPE_CHECKING

from confluent_kafka import Consumer, KafkaError, Message
from confluent_kafka import TopicPartition as KafkaPartition

from millstream.kafka.failures import is_group_authorization_error, to_millstream_error, translate_kafka_errors
from millstream.records import TopicPartition

if TYPE_CHECKING:
    from millstream.kafka.clients import Clients

_ACTION = "wait for records"
_POLL_SECONDS = 0.2
_SETTINGS = {
    "fetch.wait.max.ms": 500,  # the broker responds as soon as there are records
    "fetch.queue.backoff.ms": 5,
    "fetch.message.max.bytes": 4_096,  # one record is enough
    "queued.min.messages": 1,
    "queued.max.messages.kbytes": 64,
    "enable.partition.eof": False,
}


class KafkaWaiter:
    """Waits for new records; used by one thread for many waits."""

    def __init__(self, clients: Clients) -> None:
        self._clients = clients
        self._consumer: Consumer = clients.consumer(_SETTINGS)
        self._seen: dict[TopicPartition, int] = {}
        """The newest offset received from each watched partition."""
        self._starts: dict[TopicPartition, int] = {}
        """The offset from which the consumer last began to read each watched partition."""

    def wait(self, positions: Mapping[TopicPartition, int], timeout: float, has_more: Callable[[], bool]) -> bool:
        """Block until a partition has a record at or after its position.

        A position that is followed only by control records is detected by ``has_more``, which requests the offsets.
        """
        self._watch(positions)
        deadline = monotonic() + timeout
        while not any(self._seen[partition] >= offset for partition, offset in positions.items()):
            remaining = deadline - monotonic()
            if remaining <= 0:
                return has_more()
            with translate_kafka_errors(_ACTION):
                message = self._consumer.poll(min(remaining, _POLL_SECONDS))
            if message is None:
                self._clients.check_authentication(_ACTION)
            else:
                self._handle(message, positions)
        return True

    def close(self) -> None:
        """Close the consumer."""
        self._consumer.close()

    def _watch(self, positions: Mapping[TopicPartition, int]) -> None:
        is_behind_start = any(offset < self._starts.get(partition, 0) for partition, offset in positions.items())
        if positions.keys() != self._seen.keys() or is_behind_start:
            partitions = [KafkaPartition(key.topic, key.partition, offset) for key, offset in positions.items()]
            with translate_kafka_errors(_ACTION):
                self._consumer.assign(partitions)
            self._seen = dict.fromkeys(positions, -1)
            self._starts = dict(positions)

    def _handle(self, message: Message, positions: Mapping[TopicPartition, int]) -> None:
        error, topic, partition = message.error(), message.topic(), message.partition()
        if error is not None and is_group_authorization_error(error):
            return
        if error is not None and error.code() != KafkaError._PARTITION_EOF:
            self._seen = {}
            raise to_millstream_error(error, _ACTION, topic)
        if topic is None or partition is None:
            return
        key, offset = TopicPartition(topic, partition), message.offset() or 0
        self._seen[key] = max(self._seen.get(key, -1), offset)
        if offset < positions.get(key, 0):  # the record has already been read: skip to the position
            with translate_kafka_errors(_ACTION):
                self._consumer.seek(KafkaPartition(topic, partition, positions[key]))
            self._starts[key] = positions[key]
