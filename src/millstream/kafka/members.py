"""One consumer in a group: the client manages the membership; records are read as ranges, without this consumer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from confluent_kafka import Consumer, KafkaError
from confluent_kafka import TopicPartition as KafkaPartition

from millstream.errors import DefinitionError, RebalancedError
from millstream.foundation.names import check_name
from millstream.kafka.failures import to_millstream_error, translate_kafka_errors
from millstream.records import TopicPartition

if TYPE_CHECKING:
    from millstream.broker import ReleaseCallback
    from millstream.kafka.clients import Clients

_MIN_SESSION_MS = 6_000  # the default minimum of brokers


class KafkaMember:
    """A membership in a group; its consumer is subscribed but fetches nothing."""

    def __init__(self, clients: Clients, group: str, topics: Sequence[str], session_ms: int) -> None:
        if not topics:
            raise DefinitionError(f"a member of group {group!r} reads no topic", hint="name at least one topic")
        self._clients = clients
        self._group = check_name("group", group)
        self._held: frozenset[TopicPartition] = frozenset()
        self._generation = 0
        self._release: ReleaseCallback | None = None
        session = max(_MIN_SESSION_MS, session_ms)
        settings = {"group.id": group, "session.timeout.ms": session, "heartbeat.interval.ms": session // 6}
        self._consumer: Consumer = clients.consumer({**settings, "auto.offset.reset": "latest"})
        with translate_kafka_errors(self._action):
            self._consumer.subscribe(
                list(topics), on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost
            )

    @property
    def generation(self) -> int:
        """The number of assignments that this member has received."""
        return self._generation

    def refresh(self, release: ReleaseCallback) -> frozenset[TopicPartition]:
        """Handle group events and return the partitions held now."""
        self._release = release
        with translate_kafka_errors(self._action):
            message = self._consumer.poll(0)
        error = None if message is None else message.error()
        if error is not None and not error.retriable() and error.code() != KafkaError._PARTITION_EOF:
            raise to_millstream_error(error, self._action)
        self._clients.check_authentication(self._action)
        return self._held

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit offsets of partitions held by this member."""
        lost = sorted(offsets.keys() - self._held)
        if lost:
            raise RebalancedError(
                f"group {self._group!r} assigned {lost[0].topic}[{lost[0].partition}] to another member "
                "before this commit",
                hint="poll again; the new owner reads its records again from the last commit",
                group=self._group,
                partitions=lost,
            )
        commits = [KafkaPartition(key.topic, key.partition, offset) for key, offset in offsets.items()]
        with translate_kafka_errors(f"commit for group {self._group!r}"):
            self._consumer.commit(offsets=commits, asynchronous=False)

    def leave(self) -> None:
        """Leave the group, so that other members take over immediately."""
        self._release = None
        self._consumer.close()
        self._held = frozenset()

    @property
    def _action(self) -> str:
        return f"participate in group {self._group!r}"

    def _on_assign(self, consumer: Consumer, partitions: list[KafkaPartition]) -> None:
        consumer.assign(partitions)
        consumer.pause(partitions)
        self._held = frozenset(TopicPartition(partition.topic, partition.partition) for partition in partitions)
        self._generation += 1

    def _on_revoke(self, consumer: Consumer, _: list[KafkaPartition]) -> None:
        if self._release is not None and self._held:
            self._release(self._held)
        self._drop_partitions(consumer)

    def _on_lost(self, consumer: Consumer, _: list[KafkaPartition]) -> None:
        """The session has expired: other members own the partitions, and Kafka would refuse a commit."""
        self._drop_partitions(consumer)

    def _drop_partitions(self, consumer: Consumer) -> None:
        self._held = frozenset()
        consumer.unassign()
