"""Exactly-once appends: a repeated append has no effect. The process caches its transactional producers."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from time import monotonic
from typing import TYPE_CHECKING

from millstream.broker import Output
from millstream.kafka.exactly_once_protocol import AttemptLostError, ExactlyOnceProtocol
from millstream.kafka.marker import ProducerIdentity
from millstream.kafka.transactional_producer import KafkaTransactionalProducer, too_many_attempts

if TYPE_CHECKING:
    from millstream.kafka.clients import Clients
    from millstream.kafka.topics import KafkaTopics

_RETRY_TIMEOUT_SECONDS = 60.0
_MIN_ATTEMPTS = 3
_RETRY_DELAY_SECONDS = 0.1
_MAX_IDLE_PRODUCERS = 64


class ExactlyOnceAppender:
    """Appends under any number of producer names; concurrent appends under the same name fence each other."""

    def __init__(self, clients: Clients, topics: KafkaTopics) -> None:
        self._clients = clients
        self._topics = topics
        self._idle: dict[str, KafkaTransactionalProducer] = {}
        self._lock = threading.Lock()
        self._pause = threading.Event()

    def append(self, name: str, sequence: int, outputs: Sequence[Output]) -> None:
        """Append the records unless this or a later sequence of the producer has been appended."""
        outputs = [output for output in outputs if len(output.block)]
        if not outputs:
            return
        identity = ProducerIdentity.of(name)
        batch_bytes = self._topics.batch_bytes({output.topic for output in outputs})
        producer = self._acquire(identity, outputs[0].topic, batch_bytes)
        try:
            self._run(ExactlyOnceProtocol(producer, identity, sequence, outputs), producer)
        except BaseException:
            producer.abort_and_close()
            raise
        self._release(producer)

    def close(self) -> None:
        """Close all producers."""
        with self._lock:
            producers, self._idle = list(self._idle.values()), {}
        for producer in producers:
            producer.close()

    def _run(self, protocol: ExactlyOnceProtocol, producer: KafkaTransactionalProducer) -> None:
        deadline = monotonic() + _RETRY_TIMEOUT_SECONDS
        attempts = 0
        while not protocol.is_done:
            try:
                protocol.advance()
            except AttemptLostError as error:
                attempts += 1
                producer.discard()
                if attempts >= _MIN_ATTEMPTS and monotonic() > deadline:
                    raise too_many_attempts(protocol.identity.name, attempts, error.__cause__ or error) from error
                self._pause.wait(_RETRY_DELAY_SECONDS * min(attempts - 1, 10))  # usually a cached producer was fenced

    def _acquire(self, identity: ProducerIdentity, topic: str, batch_bytes: int) -> KafkaTransactionalProducer:
        """Take the cached producer of a name; a concurrent append under the same name gets a separate producer."""
        with self._lock:
            cached = self._idle.pop(identity.name, None)
        if cached is not None and (cached.identity != identity or cached.batch_bytes > batch_bytes):
            cached.close()
            cached = None
        return cached or KafkaTransactionalProducer(self._clients, identity, topic, batch_bytes)

    def _release(self, producer: KafkaTransactionalProducer) -> None:
        with self._lock:
            replaced = self._idle.pop(producer.identity.name, None)
            self._idle[producer.identity.name] = producer
            oldest = self._idle.pop(next(iter(self._idle))) if len(self._idle) > _MAX_IDLE_PRODUCERS else None
        for unused in (replaced, oldest):
            if unused is not None:
                unused.close()
