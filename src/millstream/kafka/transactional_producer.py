"""The steps of a publication, done by a real producer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from time import monotonic
from typing import TYPE_CHECKING

from confluent_kafka import KafkaError, KafkaException, Message, Producer, TopicPartition

from millstream.broker import Output
from millstream.errors import BrokerError, BrokerUnavailableError, MillstreamError
from millstream.kafka.client_queue import produce
from millstream.kafka.committed_offsets import Ledger
from millstream.kafka.exactly_once_protocol import AttemptLostError
from millstream.kafka.failures import explained
from millstream.kafka.marker import Identity, Marker, anchors, is_undecided, marked, newest

if TYPE_CHECKING:
    from millstream.kafka.clients import Clients

_STEP_SECONDS = 30.0
_ABORT_SECONDS = 5.0
_UNDECIDED_SECONDS = 3.0  # then a marker that only we can know is taken from what we know
SOCKET_SECONDS = 60.0
_SETTINGS = {
    "linger.ms": 20,  # fewer and larger requests while a block is queued; a commit sends what is there at once
    # After a commit the coordinator is busy for some milliseconds; by default the client then pauses for 100.
    "retry.backoff.ms": 5,
    "retry.backoff.max.ms": 500,
    "delivery.report.only.error": True,
}


class KafkaTransactions:
    """A transactional producer of this process, made anew when need be and kept when that is safe.

    The client sends the end of a transaction over another connection than its records and may send it again, and the
    broker cannot tell a late one from that of the next transaction of the same epoch. So a producer is kept only if
    its commit came back in time and nothing at all was wrong with its connections; else a new epoch is taken.
    """

    def __init__(self, clients: Clients, identity: Identity, topic: str, batch_bytes: int) -> None:
        self.identity = identity
        self.topic = topic
        self.batch_bytes = batch_bytes
        self.kept: Marker | None = None
        self._clients = clients
        self._producer: Producer | None = None
        self._ledger = Ledger(clients, identity.group)
        self._disturbed = False
        self._undelivered: tuple[KafkaError, str] | None = None
        self._marked: Marker | None = None
        self._places: list[TopicPartition] = []
        self._known: tuple[Marker, list[TopicPartition]] | None = None
        """What we have committed ourselves and heard the answer of, and where it stands."""
        own = clients.address.options.get("socket.timeout.ms")
        self._socket_seconds = SOCKET_SECONDS if own is None else int(own) / 1000

    def open(self) -> None:
        self.discard()
        settings = {**_SETTINGS, "transactional.id": self.identity.transactional_id, "batch.size": self.batch_bytes}
        self._producer = self._clients.producer(self.topic, {**settings, "on_delivery": self._failed}, self._heard)

    def init(self) -> None:
        self._do(lambda producer: producer.init_transactions(_STEP_SECONDS))

    def read(self, outputs: Sequence[Output]) -> Marker | None:
        places = anchors(outputs)
        known = self._known[0] if self._known is not None and self._known[1] == places else None
        try:
            if known is None:
                return newest(self._ledger.read(places))
            return self._read_or_known(known, places)
        except BrokerUnavailableError as error:
            raise AttemptLostError from error

    def _read_or_known(self, known: Marker, places: list[TopicPartition]) -> Marker | None:
        try:
            return newest(self._ledger.read(places, _UNDECIDED_SECONDS))
        except BrokerUnavailableError:
            if is_undecided(known, newest(self._ledger.read_decided(places))):
                return known
            raise

    def begin(self) -> None:
        self.kept = None
        self._do(lambda producer: producer.begin_transaction())

    def produce(self, outputs: Sequence[Output]) -> None:
        with self._lost_on_failure() as producer:
            for output in outputs:
                produce(producer, output)

    def mark(self, sequence: int, outputs: Sequence[Output]) -> None:
        rows = sum(len(output.block) for output in outputs)
        self._marked, self._places = (
            Marker(lineage=self.identity.lineage, sequence=sequence, rows=rows),
            anchors(outputs),
        )
        offsets, group = marked(self._marked, outputs), self._ledger.metadata
        self._do(lambda producer: producer.send_offsets_to_transaction(offsets, group, _STEP_SECONDS))

    def commit(self) -> None:
        began = monotonic()
        self._do(lambda producer: producer.commit_transaction())
        took = monotonic() - began
        assert self._marked is not None
        self._known = self._marked, self._places
        self.kept = None if self._disturbed or took >= self._socket_seconds else self._marked

    def discard(self) -> None:
        """Throw the producer away; an open transaction of its is ended by the next ``init``, or by its timeout."""
        producer, self._producer = self._producer, None
        self.kept, self._disturbed, self._undelivered = None, False, None
        if producer is not None:
            with suppress(KafkaException):
                producer.purge()
                producer.poll(0)

    def close(self) -> None:
        """Let go of everything."""
        self.discard()
        self._ledger.close()

    def give_up(self) -> None:
        """Abort if that is quick, so that readers need not wait for the timeout of the transaction."""
        if self._producer is not None:
            with suppress(KafkaException):  # it has no transaction, or no broker; the timeout ends it
                self._producer.abort_transaction(_ABORT_SECONDS)
        self.close()

    def _do(self, step: Callable[[Producer], None]) -> None:
        with self._lost_on_failure() as producer:
            step(producer)
            self._listen()

    def _listen(self) -> None:
        """Hear what happened to the connections, before the next step or the verdict on this one."""
        if self._producer is not None:
            with suppress(KafkaException):  # a fenced producer says so once more
                self._producer.poll(0)

    @contextmanager
    def _lost_on_failure(self) -> Iterator[Producer]:
        assert self._producer is not None
        try:
            yield self._producer
        except KafkaException as error:
            self._listen()
            self._clients.check_door("publish")
            raise self._judged(error.args[0]) from error
        except BrokerUnavailableError as error:
            raise AttemptLostError from error

    def _judged(self, error: KafkaError) -> Exception:
        """Return our error for what no new attempt can change, else the sign to begin again."""
        if self._undelivered is not None:
            error, topic = self._undelivered
            found = explained(error, f"write to topic {topic!r}", topic)
        else:
            found = explained(error, f"publish as {self.identity.name!r}")
        lost = found.retryable or (type(found) is BrokerError and _may_pass(error))
        return AttemptLostError(str(found)) if lost else found

    def _failed(self, error: KafkaError | None, message: Message) -> None:
        if error is not None and error.code() not in _CONSEQUENCES and self._undelivered is None:
            self._undelivered = error, message.topic() or ""

    def _heard(self, _: KafkaError) -> None:
        self._disturbed = True


_CONSEQUENCES = {KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT}
"""What happens to records because something else has gone wrong."""


def _may_pass(error: KafkaError) -> bool:
    """Fenced, aborted, in the wrong state: another attempt is newer, or ours took too long."""
    fenced = {KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError._STATE}
    unknown = {KafkaError.INVALID_TXN_STATE, KafkaError.INVALID_PRODUCER_ID_MAPPING, KafkaError.UNKNOWN_PRODUCER_ID}
    # _FATAL is what a producer says to the next record once it is fenced
    return error.txn_requires_abort() or error.retriable() or error.code() in fenced | unknown | {KafkaError._FATAL}


def failed_for_good(name: str, lost: int, cause: BaseException) -> MillstreamError:
    """Build the error for a publication that has been begun again too often."""
    return BrokerUnavailableError(
        f"{name!r} could not publish in {lost} attempts: {cause}",
        hint="is Kafka running, and does the app run only once? it is tried again",
    )
