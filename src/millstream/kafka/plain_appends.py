"""Plain appends: retries of the client are deduplicated, repeated appends of a program are not."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from time import monotonic
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from millstream.broker import Acks, Output
from millstream.errors import BrokerUnavailableError
from millstream.kafka.client_queue import enqueue
from millstream.kafka.failures import to_millstream_error, translate_kafka_errors

if TYPE_CHECKING:
    from millstream.kafka.clients import Clients
    from millstream.kafka.topics import KafkaTopics

_DELIVERY_SECONDS = 60.0
_POLL_SECONDS = 0.1
_METADATA_SECONDS = 10.0
UNKNOWN_OFFSET = -1
_WITHOUT_ACKS = {"enable.idempotence": False, "acks": "0"}
_WITH_ACKS = {
    "message.timeout.ms": int(_DELIVERY_SECONDS * 1000),
    "linger.ms": 0.5,  # an append waits for its acknowledgement, so records arrive in blocks and not one by one
}


class PlainAppender:
    """The producers of this process for plain appends, shared by its threads."""

    def __init__(self, clients: Clients, topics: KafkaTopics) -> None:
        self._clients = clients
        self._topics = topics
        self._producers: dict[tuple[bool, int], Producer] = {}
        self._lock = threading.Lock()

    def append(self, outputs: Sequence[Output], acks: Acks) -> list[int]:
        """Append blocks and return the offset of the first record of each, or -1 with ``acks="none"``."""
        waits_for_acks = acks != "none"
        if not outputs:
            return []
        batch_bytes = self._topics.batch_bytes({output.topic for output in outputs})
        producer = self._producer(waits_for_acks, batch_bytes, outputs[0].topic)
        deliveries = [_BlockAcknowledgements() for _ in outputs]
        for output, delivery in zip(outputs, deliveries, strict=True):
            delivery.expected = len(output.block)
            with translate_kafka_errors(f"write to topic {output.topic!r}", output.topic):
                _enqueue(producer, output, delivery if waits_for_acks else None)
        if not waits_for_acks:
            producer.poll(0)
            return [UNKNOWN_OFFSET] * len(outputs)
        self._wait_for(producer, deliveries)
        for output, delivery in zip(outputs, deliveries, strict=True):
            if delivery.error is not None:
                raise to_millstream_error(delivery.error, f"write to topic {output.topic!r}", output.topic)
        return [delivery.first_offset for delivery in deliveries]

    def close(self) -> None:
        """Send queued records."""
        for producer in self._producers.values():
            producer.flush(_DELIVERY_SECONDS)

    def _producer(self, waits_for_acks: bool, batch_bytes: int, topic: str) -> Producer:
        kind = waits_for_acks, batch_bytes
        with self._lock:
            if kind not in self._producers:
                settings: Mapping[str, Any] = _WITH_ACKS if waits_for_acks else _WITHOUT_ACKS
                self._producers[kind] = self._clients.producer(topic, {**settings, "batch.size": batch_bytes})
            return self._producers[kind]

    def _wait_for(self, producer: Producer, deliveries: Sequence[_BlockAcknowledgements]) -> None:
        deadline = monotonic() + _DELIVERY_SECONDS + 5
        while not all(delivery.is_done for delivery in deliveries):
            producer.poll(_POLL_SECONDS)
            self._clients.check_authentication("write records")
            if monotonic() > deadline:
                raise BrokerUnavailableError(
                    f"records were not acknowledged within {_DELIVERY_SECONDS:.0f} s",
                    hint="check that Kafka is running",
                )


def _enqueue(producer: Producer, output: Output, on_delivery: _BlockAcknowledgements | None) -> None:
    """Queue a block; if the client does not know its partition, which may be new, refresh the client's metadata."""
    try:
        enqueue(producer, output, on_delivery)
    except KafkaException as error:  # raised for the first record, so none of the block is queued
        if error.args[0].code() != KafkaError._UNKNOWN_PARTITION:
            raise
        producer.list_topics(output.topic, _METADATA_SECONDS)
        enqueue(producer, output, on_delivery)


class _BlockAcknowledgements:
    """Counts the acknowledgements for one block."""

    __slots__ = ("acknowledged", "error", "expected", "first_offset")

    def __init__(self) -> None:
        self.expected = 0
        self.acknowledged = 0
        self.first_offset = UNKNOWN_OFFSET
        self.error: KafkaError | None = None

    def __call__(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.error = error
        elif self.first_offset == UNKNOWN_OFFSET:
            self.first_offset = message.offset() or 0
        self.acknowledged += 1

    @property
    def is_done(self) -> bool:
        return self.acknowledged == self.expected
