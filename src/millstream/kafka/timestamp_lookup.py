"""The time of single records: a consumer that fetches as little as it can."""

from __future__ import annotations

import threading
from time import monotonic
from typing import TYPE_CHECKING

from confluent_kafka import Consumer, KafkaError, TopicPartition

from millstream.errors import BrokerUnavailableError
from millstream.kafka.failures import explained, is_about_the_group, translated

if TYPE_CHECKING:
    from millstream.kafka.clients import Clients

_SILENT_SECONDS = 30.0
_LOOK_SECONDS = 0.1
_SETTINGS = {
    "fetch.wait.max.ms": 10,  # the next question has to wait for the request of the one before
    "fetch.queue.backoff.ms": 5,
    "fetch.message.max.bytes": 4_096,  # brokers round it up to whole batches
    "queued.min.messages": 1,
    "queued.max.messages.kbytes": 64,
}


class Glance:
    """Looks at one record at a time, for any thread."""

    def __init__(self, clients: Clients) -> None:
        self._clients = clients
        self._lock = threading.Lock()
        self._consumer: Consumer | None = None

    def timestamp_at(self, topic: str, partition: int, start: int, end: int) -> int | None:
        """Return the time of the first record with ``start <= offset < end``, or None if there is none."""
        if start >= end:
            return None
        doing = f"read {topic}[{partition}]"
        with self._lock, translated(doing, topic):
            consumer = self._consumer = self._consumer or self._clients.consumer(_SETTINGS)
            consumer.assign([TopicPartition(topic, partition, start)])
            try:
                return self._found(consumer, doing, topic, end)
            finally:
                consumer.unassign()

    def close(self) -> None:
        """Let go of the consumer."""
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None

    def _found(self, consumer: Consumer, doing: str, topic: str, end: int) -> int | None:
        deadline = monotonic() + _SILENT_SECONDS
        while monotonic() < deadline:
            message = consumer.poll(_LOOK_SECONDS)
            if message is None:
                self._clients.check_door(doing)
                continue
            error = message.error()
            if error is not None and is_about_the_group(error):
                continue
            if error is not None and error.code() != KafkaError._PARTITION_EOF:
                raise explained(error, doing, topic)
            is_behind = error is not None or (message.offset() or 0) >= end
            return None if is_behind else int(message.timestamp()[1])
        raise BrokerUnavailableError(
            f"cannot {doing}: nothing came in {_SILENT_SECONDS:.0f} s", hint="is its broker running? it is tried again"
        )
