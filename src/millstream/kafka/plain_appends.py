"""Plain appends: what the client itself sends again is stored once; what a program sends again is stored again."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from time import monotonic
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaError, Message, Producer

from millstream.broker import Acks, Output
from millstream.errors import BrokerUnavailableError
from millstream.kafka.client_queue import produce
from millstream.kafka.failures import explained, translated

if TYPE_CHECKING:
    from millstream.kafka.clients import Clients
    from millstream.kafka.topics import Topics

_DELIVERY_SECONDS = 60.0
_LOOK_SECONDS = 0.1
UNKNOWN_OFFSET = -1
_WITHOUT_ANSWER = {"enable.idempotence": False, "acks": "0"}
_WITH_ANSWER = {"message.timeout.ms": int(_DELIVERY_SECONDS * 1000)}


class Appender:
    """The producers of this process for plain appends; threads may share them."""

    def __init__(self, clients: Clients, topics: Topics) -> None:
        self._clients = clients
        self._topics = topics
        self._producers: dict[tuple[bool, int], Producer] = {}
        self._lock = threading.Lock()

    def append(self, outputs: Sequence[Output], acks: Acks) -> list[int]:
        """Append blocks and return the offset of the first record of each, or -1 if nobody waits for the answer."""
        waits = acks != "none"
        if not outputs:
            return []
        batch_bytes = self._topics.batch_bytes({output.topic for output in outputs})
        producer = self._producer(waits, batch_bytes, outputs[0].topic)
        deliveries = [_Delivery() for _ in outputs]
        for output, delivery in zip(outputs, deliveries, strict=True):
            delivery.expected = len(output.block)
            with translated(f"write to topic {output.topic!r}", output.topic):
                produce(producer, output, delivery if waits else None)
        if not waits:
            producer.poll(0)
            return [UNKNOWN_OFFSET] * len(outputs)
        self._await(producer, deliveries)
        for output, delivery in zip(outputs, deliveries, strict=True):
            if delivery.error is not None:
                raise explained(delivery.error, f"write to topic {output.topic!r}", output.topic)
        return [delivery.first for delivery in deliveries]

    def close(self) -> None:
        """Send what is waiting."""
        for producer in self._producers.values():
            producer.flush(_DELIVERY_SECONDS)

    def _producer(self, waits: bool, batch_bytes: int, topic: str) -> Producer:
        kind = waits, batch_bytes
        with self._lock:
            if kind not in self._producers:
                settings: dict[str, Any] = _WITH_ANSWER if waits else _WITHOUT_ANSWER
                self._producers[kind] = self._clients.producer(topic, {**settings, "batch.size": batch_bytes})
            return self._producers[kind]

    def _await(self, producer: Producer, deliveries: Sequence[_Delivery]) -> None:
        deadline = monotonic() + _DELIVERY_SECONDS + 5
        while not all(delivery.is_done for delivery in deliveries):
            producer.poll(_LOOK_SECONDS)
            self._clients.check_door("write records")
            if monotonic() > deadline:
                raise BrokerUnavailableError("records were not acknowledged in time", hint="is Kafka running?")


class _Delivery:
    """Counts the answers for one block."""

    __slots__ = ("answered", "error", "expected", "first")

    def __init__(self) -> None:
        self.expected = 0
        self.answered = 0
        self.first = UNKNOWN_OFFSET
        self.error: KafkaError | None = None

    def __call__(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.error = error
        elif self.first == UNKNOWN_OFFSET:
            self.first = message.offset() or 0
        self.answered += 1

    @property
    def is_done(self) -> bool:
        return self.answered == self.expected
