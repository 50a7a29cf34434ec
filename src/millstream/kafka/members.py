"""One consumer in a group: the client holds the membership, records are read as ranges like everywhere else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from confluent_kafka import Consumer, KafkaError
from confluent_kafka import TopicPartition as Place

from millstream.errors import DefinitionError, RebalancedError
from millstream.foundation.names import check_name
from millstream.kafka.failures import explained, translated
from millstream.records import TopicPartition

if TYPE_CHECKING:
    from millstream.broker import ReleaseCallback
    from millstream.kafka.clients import Clients

_LEAST_SESSION_MS = 6_000  # brokers refuse less, unless told otherwise


class Member:
    """A membership; its consumer is subscribed, but fetches nothing."""

    def __init__(self, clients: Clients, group: str, topics: Sequence[str], session_ms: int) -> None:
        if not topics:
            raise DefinitionError(f"a member of group {group!r} reads no topic", hint="name at least one")
        self._clients = clients
        self._group = check_name("group", group)
        self._held: frozenset[TopicPartition] = frozenset()
        self._generation = 0
        self._release: ReleaseCallback | None = None
        session = max(_LEAST_SESSION_MS, session_ms)
        settings = {"group.id": group, "session.timeout.ms": session, "heartbeat.interval.ms": session // 6}
        self._consumer: Consumer = clients.consumer({**settings, "auto.offset.reset": "latest"})
        with translated(self._doing):
            self._consumer.subscribe(
                list(topics), on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost
            )

    @property
    def generation(self) -> int:
        """How often this member was given partitions."""
        return self._generation

    def refresh(self, release: ReleaseCallback) -> frozenset[TopicPartition]:
        """Take part in the life of the group and return the partitions held now."""
        self._release = release
        with translated(self._doing):
            message = self._consumer.poll(0)
        refusal = None if message is None else message.error()
        if refusal is not None and not refusal.retriable() and refusal.code() != KafkaError._PARTITION_EOF:
            raise explained(refusal, self._doing)
        self._clients.check_door(self._doing)
        return self._held

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit offsets of partitions held by this member."""
        lost = sorted(offsets.keys() - self._held)
        if lost:
            raise RebalancedError(
                f"group {self._group!r} gave {lost[0].topic}[{lost[0].partition}] to another member before this commit",
                hint="poll again: its records will be read from the last commit by their new owner",
                group=self._group,
                partitions=lost,
            )
        places = [Place(each.topic, each.partition, at) for each, at in offsets.items()]
        with translated(f"commit for group {self._group!r}"):
            self._consumer.commit(offsets=places, asynchronous=False)

    def leave(self) -> None:
        """Leave the group, so that others take over without waiting."""
        self._release = None
        self._consumer.close()
        self._held = frozenset()

    @property
    def _doing(self) -> str:
        return f"take part in group {self._group!r}"

    def _assigned(self, consumer: Consumer, places: list[Place]) -> None:
        consumer.assign(places)
        consumer.pause(places)
        self._held = frozenset(TopicPartition(place.topic, place.partition) for place in places)
        self._generation += 1

    def _revoked(self, consumer: Consumer, _: list[Place]) -> None:
        if self._release is not None and self._held:
            self._release(self._held)
        self._give_up(consumer)

    def _lost(self, consumer: Consumer, _: list[Place]) -> None:
        """We were silent for too long: others own the partitions already, a commit would be refused."""
        self._give_up(consumer)

    def _give_up(self, consumer: Consumer) -> None:
        self._held = frozenset()
        consumer.unassign()
