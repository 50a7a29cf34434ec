"""Look up the timestamps of single records with a consumer that fetches as little as possible."""

from __future__ import annotations

import threading
from time import monotonic
from typing import TYPE_CHECKING

from confluent_kafka import Consumer, KafkaError, TopicPartition

from millstream.errors import BrokerUnavailableError
from millstream.kafka.failures import is_group_authorization_error, to_millstream_error, translate_kafka_errors

if TYPE_CHECKING:
    from millstream.kafka.clients import Clients

_TIMEOUT_SECONDS = 30.0
_POLL_SECONDS = 0.1
_SETTINGS = {
    "fetch.wait.max.ms": 10,  # the next lookup has to wait for this request
    "fetch.queue.backoff.ms": 5,
    "fetch.message.max.bytes": 4_096,  # brokers round it up to whole batches
    "queued.min.messages": 1,
    "queued.max.messages.kbytes": 64,
}


class TimestampLookup:
    """Looks up one record at a time; threads share it."""

    def __init__(self, clients: Clients) -> None:
        self._clients = clients
        self._lock = threading.Lock()
        self._consumer: Consumer | None = None

    def timestamp_at(self, topic: str, partition: int, start: int, end: int) -> int | None:
        """Return the timestamp of the first record with ``start <= offset < end``, or None if there is none."""
        if start >= end:
            return None
        action = f"read {topic}[{partition}]"
        with self._lock, translate_kafka_errors(action, topic):
            consumer = self._consumer = self._consumer or self._clients.consumer(_SETTINGS)
            consumer.assign([TopicPartition(topic, partition, start)])
            try:
                return self._first_timestamp(consumer, action, topic, end)
            finally:
                consumer.unassign()

    def close(self) -> None:
        """Close the consumer."""
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None

    def _first_timestamp(self, consumer: Consumer, action: str, topic: str, end: int) -> int | None:
        deadline = monotonic() + _TIMEOUT_SECONDS
        while monotonic() < deadline:
            message = consumer.poll(_POLL_SECONDS)
            if message is None:
                self._clients.check_authentication(action)
                continue
            error = message.error()
            if error is not None and is_group_authorization_error(error):
                continue
            if error is not None and error.code() != KafkaError._PARTITION_EOF:
                raise to_millstream_error(error, action, topic)
            is_past_end = error is not None or (message.offset() or 0) >= end
            return None if is_past_end else int(message.timestamp()[1])
        raise BrokerUnavailableError(
            f"cannot {action}: no response in {_TIMEOUT_SECONDS:.0f} s",
            hint="check that its broker is running; the request is retried",
        )
