"""Committed offsets of one group, read and written through a consumer that never joins it.

The admin client could do both, but ends the whole process when the group's coordinator moves (librdkafka 2.16).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, TypeVar

from confluent_kafka import Consumer, KafkaException, TopicPartition

from millstream.errors import BrokerUnavailableError, MillstreamError
from millstream.kafka.failures import explained

if TYPE_CHECKING:
    from millstream.kafka.clients import Clients

T = TypeVar("T")
_ASK_SECONDS = 2.0
_TRY_SECONDS = 20.0
_PAUSE_SECONDS = 0.05


class Ledger:
    """What a group has committed; offsets of a transaction that is still being ended are waited for."""

    def __init__(self, clients: Clients, group: str) -> None:
        self._clients = clients
        self._group = group
        self._consumer = self._made()
        self.metadata: Any = self._consumer.consumer_group_metadata()
        """What a producer must know in order to commit offsets for the group in its transaction."""

    def read(self, places: Sequence[TopicPartition], seconds: float = _TRY_SECONDS) -> list[TopicPartition]:
        """Return the places with their committed offsets and metadata; the offset is negative where there is none."""
        return self._asked(
            lambda: self._consumer.committed(list(places), timeout=_ASK_SECONDS), f"read group {self._group!r}", seconds
        )

    def read_decided(self, places: Sequence[TopicPartition]) -> list[TopicPartition]:
        """Return the same, but leave out what a transaction has written whose end is not known."""
        consumer = self._clients.consumer({"group.id": self._group, "isolation.level": "read_uncommitted"})
        try:
            return self._asked(
                lambda: consumer.committed(list(places), timeout=_ASK_SECONDS), f"read group {self._group!r}"
            )
        finally:
            consumer.close()

    def write(self, places: Sequence[TopicPartition]) -> None:
        """Commit offsets; refused if the group has members."""
        self._asked(
            lambda: self._consumer.commit(offsets=list(places), asynchronous=False), f"commit for group {self._group!r}"
        )

    def close(self) -> None:
        """Let go of the consumer."""
        self._consumer.close()

    def _made(self) -> Consumer:
        return self._clients.consumer({"group.id": self._group})

    def _asked(self, request: Callable[[], Any], doing: str, seconds: float = _TRY_SECONDS) -> list[TopicPartition]:
        deadline = monotonic() + seconds
        while True:
            try:
                answer: list[TopicPartition] = request()
                failed = next((place.error for place in answer if place.error is not None), None)
                if failed is None:
                    return answer
                problem: MillstreamError = explained(failed, doing)
            except KafkaException as error:
                problem = explained(error.args[0], doing)
                problem.__cause__ = error
            refusal = self._consumer.poll(0)  # that the group is not ours to read is told here, not in the answer
            if refusal is not None and (told := refusal.error()) is not None:
                problem = explained(told, doing)
            self._clients.check_door(doing)
            if not isinstance(problem, BrokerUnavailableError):
                raise problem
            if monotonic() > deadline:
                raise BrokerUnavailableError(
                    f"cannot {doing}: {problem.message}", hint="if it lasts, is it stuck? see docs/kafka.md"
                ) from problem
            sleep(_PAUSE_SECONDS)
            # A consumer that has lost its coordinator may not look for it again for minutes.
            self._consumer.close()
            self._consumer = self._made()
