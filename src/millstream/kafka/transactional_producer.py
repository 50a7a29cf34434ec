"""The steps of the exactly-once protocol, executed by a Kafka producer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from time import monotonic
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer, TopicPartition

from millstream.broker import Output
from millstream.errors import BrokerError, BrokerUnavailableError, MillstreamError
from millstream.kafka.client_calls import returning
from millstream.kafka.client_queue import enqueue
from millstream.kafka.committed_offsets import CommittedOffsets
from millstream.kafka.exactly_once_protocol import AttemptLostError
from millstream.kafka.failures import to_millstream_error
from millstream.kafka.marker import (
    Marker,
    ProducerIdentity,
    is_own_marker_pending,
    marker_offsets,
    marker_partitions,
    newest_marker,
)

if TYPE_CHECKING:
    from millstream.kafka.clients import Clients

_STEP_SECONDS = 30.0
_ABORT_SECONDS = 5.0
_GRACE_SECONDS = 5.0
_PENDING_SECONDS = 3.0  # after that, the marker acknowledged to this process is used
SOCKET_SECONDS = 60.0
_SETTINGS = {
    "linger.ms": 20,  # fewer and larger requests while a block is queued; a commit sends all queued records immediately
    # The coordinator is busy for some milliseconds after a commit; by default the client would pause for 100.
    "retry.backoff.ms": 5,
    "retry.backoff.max.ms": 500,
    "delivery.report.only.error": True,
}


class KafkaTransactionalProducer:
    """A transactional producer of this process, replaced when necessary and reused when that is safe.

    The client sends the end of a transaction over a different connection than its records and may send it twice, and
    the broker cannot distinguish a late one from the end of the next transaction of the same epoch. So a producer is
    reused only if its commit was acknowledged in time without any connection error; otherwise a new epoch is started.
    """

    def __init__(self, clients: Clients, identity: ProducerIdentity, topic: str | None, batch_bytes: int) -> None:
        self.identity = identity
        self.topic = topic
        self.batch_bytes = batch_bytes
        self.reusable_marker: Marker | None = None
        self.is_reusable = False
        """Whether another transaction can follow without a new epoch."""
        self._clients = clients
        self._producer: Producer | None = None
        self._has_connection_error = False
        self._delivery_error: tuple[KafkaError, str] | None = None
        self._marker: Marker | None = None
        self._marker_partitions: list[TopicPartition] = []
        self._acknowledged: tuple[Marker, list[TopicPartition]] | None = None
        """The last marker whose commit was acknowledged to this process, and the partitions that store it."""
        timeout = clients.address.options.get("socket.timeout.ms")
        self._socket_seconds = SOCKET_SECONDS if timeout is None else int(timeout) / 1000

    def open(self) -> None:
        self.discard()
        settings: dict[str, Any] = {
            **_SETTINGS,
            "transactional.id": self.identity.transactional_id,
            "batch.size": self.batch_bytes,
            "on_delivery": self._on_delivery,
        }
        self._producer = self._clients.producer(self.topic, settings, self._on_connection_error)

    def init(self) -> None:
        self._execute(lambda producer: producer.init_transactions(_STEP_SECONDS))

    def read(self, outputs: Sequence[Output]) -> Marker | None:
        partitions = marker_partitions(outputs)
        try:
            if self._acknowledged is not None and self._acknowledged[1] == partitions:
                return self._read_or_acknowledged(self._acknowledged[0], partitions)
            return newest_marker(self._committed_offsets.read(partitions))
        except BrokerUnavailableError as error:
            raise AttemptLostError from error

    def _read_or_acknowledged(self, acknowledged: Marker, partitions: list[TopicPartition]) -> Marker | None:
        try:
            return newest_marker(self._committed_offsets.read(partitions, _PENDING_SECONDS))
        except BrokerUnavailableError:
            stable = newest_marker(self._committed_offsets.read_without_pending(partitions))
            if is_own_marker_pending(acknowledged, stable):
                return acknowledged
            raise

    @cached_property
    def _committed_offsets(self) -> CommittedOffsets:
        return CommittedOffsets(self._clients, self.identity.group)

    def begin(self) -> None:
        self.reusable_marker, self.is_reusable = None, False
        self._execute(lambda producer: producer.begin_transaction())

    def produce(self, outputs: Sequence[Output]) -> None:
        with self._handle_failures() as producer:
            for output in outputs:
                enqueue(producer, output)

    def mark(self, sequence: int, outputs: Sequence[Output]) -> None:
        rows = sum(len(output.block) for output in outputs)
        self._marker = Marker(lineage=self.identity.lineage, sequence=sequence, rows=rows)
        self._marker_partitions = marker_partitions(outputs)
        offsets, group = marker_offsets(self._marker, outputs), self._committed_offsets.metadata
        self._execute(
            lambda producer: returning(
                lambda: producer.send_offsets_to_transaction(offsets, group, _STEP_SECONDS),
                within=_STEP_SECONDS + _GRACE_SECONDS,
            )
        )

    def commit(self) -> None:
        started = monotonic()
        self._execute(lambda producer: producer.commit_transaction())
        is_timely = monotonic() - started < self._socket_seconds
        self.is_reusable = is_timely and not self._has_connection_error
        if self._marker is not None:
            self._acknowledged = self._marker, self._marker_partitions
            self.reusable_marker = self._marker if self.is_reusable else None

    def discard(self) -> None:
        """Discard the producer; the next ``init``, or the timeout, aborts its open transaction."""
        producer, self._producer = self._producer, None
        self.reusable_marker, self.is_reusable = None, False
        self._has_connection_error, self._delivery_error = False, None
        if producer is not None:
            with suppress(KafkaException):
                producer.purge()
                producer.poll(0)

    def close(self) -> None:
        """Close the producer and its consumer."""
        self.discard()
        if "_committed_offsets" in self.__dict__:
            self._committed_offsets.close()

    def abort_and_close(self) -> None:
        """Try to abort the transaction, so that readers need not wait for its timeout, and close."""
        if self._producer is not None:
            with suppress(KafkaException):  # no transaction or no broker; the timeout aborts it
                self._producer.abort_transaction(_ABORT_SECONDS)
        self.close()

    def _execute(self, step: Callable[[Producer], None]) -> None:
        with self._handle_failures() as producer:
            step(producer)
            self._poll()

    def _poll(self) -> None:
        """Receive connection errors before the next step, or before the error of this step is classified."""
        if self._producer is not None:
            with suppress(KafkaException):  # a fenced producer raises again
                self._producer.poll(0)

    @contextmanager
    def _handle_failures(self) -> Iterator[Producer]:
        assert self._producer is not None
        try:
            yield self._producer
        except KafkaException as error:
            self._poll()
            self._clients.check_authentication("publish")
            raise self._error_for(error.args[0]) from error
        except BrokerUnavailableError as error:
            raise AttemptLostError from error

    def _error_for(self, error: KafkaError) -> Exception:
        """Return the translated error if a new attempt cannot succeed, else ``AttemptLostError``."""
        if self._delivery_error is not None:
            error, topic = self._delivery_error
            translated = to_millstream_error(error, f"write to topic {topic!r}", topic)
        else:
            translated = to_millstream_error(error, f"publish as {self.identity.name!r}")
        is_lost = translated.retryable or (type(translated) is BrokerError and _is_retryable(error))
        return AttemptLostError(str(translated)) if is_lost else translated

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        if error is not None and error.code() not in _CONSEQUENCES and self._delivery_error is None:
            self._delivery_error = error, message.topic() or ""

    def _on_connection_error(self, _: KafkaError) -> None:
        self._has_connection_error = True


_CONSEQUENCES = {KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT}
"""Delivery errors that only follow from another error."""


def _is_retryable(error: KafkaError) -> bool:
    """Whether the producer was fenced or aborted: another attempt is newer, or this one took too long."""
    fenced = {KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError._STATE}
    unknown = {KafkaError.INVALID_TXN_STATE, KafkaError.INVALID_PRODUCER_ID_MAPPING, KafkaError.UNKNOWN_PRODUCER_ID}
    # a fenced producer raises _FATAL for the next record
    return error.txn_requires_abort() or error.retriable() or error.code() in fenced | unknown | {KafkaError._FATAL}


def too_many_attempts(name: str, attempts: int, cause: BaseException) -> MillstreamError:
    """Build the error for an append that has failed too often."""
    return BrokerUnavailableError(
        f"{name!r} could not publish in {attempts} attempts: {cause}",
        hint="check that Kafka is running and that the app runs only once; the append is retried",
    )
