"""A fenced writer: transactions under one transactional id, without markers.

The process that opened the id last is the only one that can commit. ``init`` waits until the transaction of an earlier
epoch is decided, so a process that has opened the writer reads everything that earlier processes have committed. As in
``transactional_producer.py``, a producer is reused only if its last commit was acknowledged without any doubt.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from time import monotonic
from typing import TYPE_CHECKING

from millstream.broker import Output, WriterLostError
from millstream.kafka.exactly_once_protocol import AttemptLostError
from millstream.kafka.marker import ProducerIdentity
from millstream.kafka.transactional_producer import KafkaTransactionalProducer, too_many_attempts

if TYPE_CHECKING:
    from millstream.kafka.clients import Clients
    from millstream.kafka.topics import KafkaTopics

_RETRY_TIMEOUT_SECONDS = 60.0
_RETRY_DELAY_SECONDS = 0.1
_MAX_BATCH_BYTES = 1_000_000


class KafkaFencedWriter:
    """A writer under one transactional id, used by one thread at a time."""

    def __init__(self, clients: Clients, topics: KafkaTopics, name: str) -> None:
        self._clients = clients
        self._topics = topics
        self._identity = ProducerIdentity(name, "")
        self._batch_bytes = _MAX_BATCH_BYTES
        self._producer: KafkaTransactionalProducer | None = None
        self._pause = threading.Event()

    @property
    def is_open(self) -> bool:
        """Whether this process has opened the writer, and nothing has gone wrong since."""
        return self._producer is not None

    def open(self) -> None:
        """Start a new epoch; retries while the cluster is unavailable."""
        self.close()
        deadline = monotonic() + _RETRY_TIMEOUT_SECONDS
        attempts = 0
        while True:
            producer = KafkaTransactionalProducer(self._clients, self._identity, None, self._batch_bytes)
            try:
                producer.open()
                producer.init()
            except AttemptLostError as error:
                producer.close()
                attempts += 1
                if monotonic() > deadline:
                    raise too_many_attempts(self._identity.name, attempts, error.__cause__ or error) from error
                self._pause.wait(_RETRY_DELAY_SECONDS * min(attempts, 10))
            except BaseException:
                producer.close()
                raise
            else:
                self._producer = producer
                return

    def commit(self, outputs: Sequence[Output]) -> None:
        """Append blocks in one transaction."""
        producer = self._producer
        if producer is None:
            raise WriterLostError(f"{self._identity.name} is not open")
        batch_bytes = self._topics.batch_bytes({output.topic for output in outputs})
        if batch_bytes < self._batch_bytes:  # the client has one limit for all topics
            self._batch_bytes = batch_bytes
            self.close()
            raise WriterLostError(f"{self._identity.name} has to send smaller batches")
        try:
            producer.begin()
            producer.produce(outputs)
            producer.commit()
        except AttemptLostError as error:
            self.close()
            raise WriterLostError(str(error)) from error
        except BaseException:
            self._producer = None
            producer.abort_and_close()
            raise
        if not producer.is_reusable:
            self.close()

    def close(self) -> None:
        """Close the producer; an open transaction is aborted by the next process that opens the writer."""
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.close()
