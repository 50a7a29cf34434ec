"""Appends that happen once, whoever repeats them: publications by the producers that this process keeps."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from time import monotonic
from typing import TYPE_CHECKING

from millstream.broker import Output
from millstream.kafka.exactly_once_protocol import AttemptLostError, Publication
from millstream.kafka.marker import Identity
from millstream.kafka.transactional_producer import KafkaTransactions, failed_for_good

if TYPE_CHECKING:
    from millstream.kafka.clients import Clients
    from millstream.kafka.topics import Topics

_TRY_SECONDS = 60.0
_LEAST_ATTEMPTS = 3
_PAUSE_SECONDS = 0.1
_KEPT_PRODUCERS = 64


class Publisher:
    """Publishes under any number of names; of one name one at a time."""

    def __init__(self, clients: Clients, topics: Topics) -> None:
        self._clients = clients
        self._topics = topics
        self._kept: dict[str, KafkaTransactions] = {}
        self._lock = threading.Lock()
        self._pause = threading.Event()

    def publish(self, producer: str, sequence: int, outputs: Sequence[Output]) -> None:
        """Publish the records unless this or a later sequence of the producer is published."""
        outputs = [output for output in outputs if len(output.block)]
        if not outputs:
            return
        identity = Identity.of(producer)
        batch_bytes = self._topics.batch_bytes({output.topic for output in outputs})
        transactions = self._taken(identity, outputs[0].topic, batch_bytes)
        try:
            self._run(Publication(transactions, identity, sequence, outputs), transactions)
        except BaseException:
            transactions.give_up()
            raise
        self._keep(transactions)

    def close(self) -> None:
        """Let go of all producers."""
        with self._lock:
            kept, self._kept = list(self._kept.values()), {}
        for transactions in kept:
            transactions.close()

    def _run(self, publication: Publication, transactions: KafkaTransactions) -> None:
        deadline = monotonic() + _TRY_SECONDS
        lost = 0
        while not publication.is_done:
            try:
                publication.advance()
            except AttemptLostError as error:
                lost += 1
                transactions.discard()
                if lost >= _LEAST_ATTEMPTS and monotonic() > deadline:
                    raise failed_for_good(publication.identity.name, lost, error.__cause__ or error) from error
                self._pause.wait(_PAUSE_SECONDS * min(lost - 1, 10))  # most are kept producers that have been fenced

    def _taken(self, identity: Identity, topic: str, batch_bytes: int) -> KafkaTransactions:
        """Take the producer of a name; another thread that publishes under it meanwhile gets one of its own."""
        with self._lock:
            found = self._kept.pop(identity.name, None)
        if found is not None and (found.identity != identity or found.batch_bytes > batch_bytes):
            found.close()
            found = None
        return found or KafkaTransactions(self._clients, identity, topic, batch_bytes)

    def _keep(self, transactions: KafkaTransactions) -> None:
        with self._lock:
            other = self._kept.pop(transactions.identity.name, None)
            self._kept[transactions.identity.name] = transactions
            oldest = self._kept.pop(next(iter(self._kept))) if len(self._kept) > _KEPT_PRODUCERS else None
        for each in (other, oldest):
            if each is not None:
                each.close()
