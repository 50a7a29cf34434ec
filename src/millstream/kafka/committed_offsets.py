"""Committed offsets of one group, read and written through a consumer that never joins it.

The admin client could do both, but aborts the process when the group's coordinator moves (librdkafka 2.16).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, TypeVar

from confluent_kafka import Consumer, KafkaException, TopicPartition

from millstream.errors import BrokerUnavailableError, MillstreamError
from millstream.kafka.failures import to_millstream_error

if TYPE_CHECKING:
    from millstream.kafka.clients import Clients

T = TypeVar("T")
_REQUEST_SECONDS = 2.0
_RETRY_TIMEOUT_SECONDS = 20.0
_RETRY_DELAY_SECONDS = 0.05


class CommittedOffsets:
    """The committed offsets of a group; reads wait for offsets of transactions that are still being completed."""

    def __init__(self, clients: Clients, group: str) -> None:
        self._clients = clients
        self._group = group
        self._consumer = self._create_consumer()
        self.metadata: Any = self._consumer.consumer_group_metadata()
        """The metadata that a producer needs to commit offsets of the group in its transaction."""

    def read(
        self, partitions: Sequence[TopicPartition], seconds: float = _RETRY_TIMEOUT_SECONDS
    ) -> list[TopicPartition]:
        """Return the partitions with committed offsets and metadata; the offset is negative if there is none."""
        return self._request(
            lambda: self._consumer.committed(list(partitions), timeout=_REQUEST_SECONDS),
            f"read group {self._group!r}",
            seconds,
        )

    def read_without_pending(self, partitions: Sequence[TopicPartition]) -> list[TopicPartition]:
        """Return the same without offsets of transactions whose outcome is unknown."""
        consumer = self._clients.consumer({"group.id": self._group, "isolation.level": "read_uncommitted"})
        try:
            return self._request(
                lambda: consumer.committed(list(partitions), timeout=_REQUEST_SECONDS), f"read group {self._group!r}"
            )
        finally:
            consumer.close()

    def write(self, partitions: Sequence[TopicPartition]) -> None:
        """Commit offsets; Kafka refuses this if the group has members."""
        self._request(
            lambda: self._consumer.commit(offsets=list(partitions), asynchronous=False),
            f"commit for group {self._group!r}",
        )

    def close(self) -> None:
        """Close the consumer."""
        self._consumer.close()

    def _create_consumer(self) -> Consumer:
        return self._clients.consumer({"group.id": self._group})

    def _request(
        self, send: Callable[[], Any], action: str, seconds: float = _RETRY_TIMEOUT_SECONDS
    ) -> list[TopicPartition]:
        deadline = monotonic() + seconds
        while True:
            try:
                response: list[TopicPartition] = send()
                failed = next((partition.error for partition in response if partition.error is not None), None)
                if failed is None:
                    return response
                problem: MillstreamError = to_millstream_error(failed, action)
            except KafkaException as error:
                problem = to_millstream_error(error.args[0], action)
                problem.__cause__ = error
            event = self._consumer.poll(0)  # a missing ACL on the group is reported here, not in the response
            if event is not None and (event_error := event.error()) is not None:
                problem = to_millstream_error(event_error, action)
            self._clients.check_authentication(action)
            if not isinstance(problem, BrokerUnavailableError):
                raise problem
            if monotonic() > deadline:
                raise BrokerUnavailableError(
                    f"cannot {action}: {problem.message}",
                    hint="if it persists, a transaction may be hanging; see docs/kafka.md",
                ) from problem
            sleep(_RETRY_DELAY_SECONDS)
            # A consumer that has lost its coordinator may not search for it again for minutes.
            self._consumer.close()
            self._consumer = self._create_consumer()
