"""A Kafka cluster as a broker: a thin facade over the other modules."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Self

from millstream.broker import (
    TOMBSTONE_RETENTION_MS,
    Acks,
    GroupInfo,
    GroupMember,
    Offsets,
    Output,
    RecordChunk,
    ShareSettings,
    TopicConfig,
    TopicInfo,
)
from millstream.durations import Duration, milliseconds
from millstream.kafka.address import KafkaAddress
from millstream.kafka.arrivals import Arrivals
from millstream.kafka.clients import Clients
from millstream.kafka.exactly_once_appends import ExactlyOnceAppender
from millstream.kafka.fenced_writer import KafkaFencedWriter
from millstream.kafka.groups import KafkaGroups
from millstream.kafka.members import KafkaMember
from millstream.kafka.offsets import OffsetLookup
from millstream.kafka.plain_appends import PlainAppender
from millstream.kafka.reading import ReaderPool
from millstream.kafka.share_member import KafkaShareMember
from millstream.kafka.timestamp_lookup import TimestampLookup
from millstream.kafka.topics import KafkaTopics
from millstream.kafka.waiting import KafkaWaiter
from millstream.records import TopicPartition

_LOOK_UP_SECONDS = 0.1  # the shortest wait after which the broker is asked whether there are records
# Only closed segments are compacted, and a reader of a changelog has to read what is not compacted yet.
_CHANGELOG_SETTINGS = {"segment.bytes": str(64 << 20), "min.cleanable.dirty.ratio": "0.3"}


class KafkaBroker:
    """A broker on a Kafka cluster; readers see committed records only.

    Connections are opened when first needed, and a forked process opens its own.
    """

    def __init__(self, url: str) -> None:
        self._address = KafkaAddress.parse(url)
        self._cached: _Connections | None = None

    @property
    def url(self) -> str:
        """The URL of the cluster, as accepted by ``broker=``."""
        return self._address.url

    def cluster_id(self) -> str:
        """Return the id that the brokers of the cluster share."""
        return str(self._connections.clients.metadata("read the id of the cluster").cluster_id)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Send queued records and close all connections."""
        if self._cached is not None and self._cached.clients.belongs_to_this_process:
            self._cached.close()
        self._cached = None

    def create_topic(self, name: str, config: TopicConfig) -> None:
        """Create a topic."""
        self._connections.topics.create(name, config)

    def delete_topic(self, name: str) -> None:
        """Delete a topic with its records."""
        self._connections.topics.delete(name)

    def alter_topic(self, name: str, **changes: Any) -> TopicInfo:
        """Change settings of a topic, named as in ``TopicConfig``; the number of partitions can only grow."""
        self._connections.topics.alter(name, changes)
        return self.topic(name)

    def topic(self, name: str) -> TopicInfo:
        """Describe a topic; Kafka does not report its size to clients."""
        config, topic_id = self._connections.topics.config_and_id(name)
        return TopicInfo(name=name, config=config, offsets=tuple(self.offsets(name)), bytes=(), id=topic_id)

    def topic_names(self) -> list[str]:
        """Return the names of all topics in order, except Kafka's internal ones."""
        return self._connections.topics.names()

    def delete_before(self, topic: str, partition: int, offset: int) -> None:
        """Delete the records of a partition before ``offset``."""
        self._connections.offsets.delete_before(topic, partition, offset)

    def append(self, outputs: Sequence[Output], *, acks: Acks = "synced") -> list[int]:
        """Append blocks and return the offset of the first record of each; -1 with ``acks="none"``."""
        return self._connections.plain_appends.append(outputs, acks)

    def append_once(self, producer: str, sequence: int, outputs: Sequence[Output], *, acks: Acks = "synced") -> None:  # noqa: ARG002 - a transaction always waits for all replicas
        """Append blocks in one transaction, unless this or a later ``sequence`` of ``producer`` was appended."""
        self._connections.exactly_once_appends.append(producer, sequence, outputs)

    def fenced_writer(self, name: str) -> KafkaFencedWriter:
        """Return this process's writer of transactions under a transactional id."""
        return self._connections.fenced_writer(name)

    def create_changelog(self, topic: str, partitions: int) -> None:
        """Create a compacted topic for the state of an app."""
        config = TopicConfig(partitions=partitions, compact=True, tombstone_retention_ms=TOMBSTONE_RETENTION_MS)
        self._connections.topics.create(topic, config, _CHANGELOG_SETTINGS)

    def offsets(self, topic: str) -> list[Offsets]:
        """Return the first and the next offset of each partition; an open transaction ends the readable records."""
        return self._connections.offsets.bounds(topic)

    def end_offsets(self, topic: str, partitions: int) -> list[int]:
        """Return the next offset of the first ``partitions`` partitions, with fewer requests than ``offsets``."""
        return self._connections.offsets.ends(topic, partitions)

    def offset_at(self, topic: str, partition: int, timestamp: int) -> int | None:
        """Return the offset of the first record with ``timestamp`` or later, or None if there is none."""
        return self._connections.offsets.at_timestamp(topic, partition, timestamp)

    def timestamp_at(self, topic: str, partition: int, start: int, end: int) -> int | None:
        """Return the timestamp of the first record with ``start <= offset < end``, or None if there is none."""
        self._connections.offsets.check_partition(topic, partition)
        return self._connections.timestamps.timestamp_at(topic, partition, start, end)

    def read(self, topic: str, partition: int, start: int, end: int) -> Iterator[RecordChunk]:
        """Yield the records with ``start <= offset < end`` in order, across gaps."""
        connections = self._connections
        connections.offsets.check_partition(topic, partition)
        arrivals = connections.arrivals
        received = None if arrivals is None else arrivals.read(TopicPartition(topic, partition), start, end)
        return connections.readers.read(topic, partition, start, end) if received is None else iter(received)

    def wait(self, positions: Mapping[TopicPartition, int], timeout: float) -> bool:
        """Block until a partition has a record at or after its position; False after ``timeout`` seconds."""

        def has_more() -> bool:
            offsets = {topic: self.offsets(topic) for topic in {partition.topic for partition in positions}}
            return any(offsets[key.topic][key.partition].end > offset for key, offset in positions.items())

        self._connections.readers.stop_idle()
        arrivals = self._connections.arrivals
        if arrivals is not None and arrivals.follows(positions):
            # the end of a partition is received too, so a short wait need not ask for it
            return arrivals.wait(positions, timeout) or (timeout >= _LOOK_UP_SECONDS and has_more())
        return self._connections.waiter.wait(positions, timeout, has_more)

    def received_ends(self, positions: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Return up to which offsets this thread has received the records after some positions, without a request.

        The first call starts to receive them in the background, and returns nothing.
        """
        return self._connections.received_ends(positions)

    def stop_receiving(self) -> None:
        """Receive nothing in the background any more."""
        if self._connections.arrivals is not None:
            self._connections.arrivals.stop()

    def group_names(self) -> list[str]:
        """Return the names of all consumer groups in order."""
        return self._connections.groups.names()

    def group(self, name: str) -> GroupInfo:
        """Describe a consumer group."""
        return self._connections.groups.info(name)

    def members(self, group: str) -> tuple[GroupMember, ...]:
        """Return the live members of a consumer group; none for an unknown group."""
        return self._connections.groups.members(group)

    def commit(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Set the offsets of a group that has no live members; a member commits through its consumer."""
        self._connections.groups.commit(group, offsets)

    def committed(self, group: str) -> dict[TopicPartition, int]:
        """Return the committed offsets of a group."""
        return self._connections.groups.committed(group)

    def delete_group(self, name: str) -> None:
        """Delete a group that has no live members."""
        self._connections.groups.delete(name)

    def forget_producers(self, prefixes: Iterable[str]) -> None:
        """Delete the markers of producers with these name prefixes; they must not publish at the same time."""
        self._connections.groups.delete_markers(prefixes)

    def join_group(self, group: str, topics: Sequence[str], *, session_timeout: Duration = "10 s") -> KafkaMember:
        """Join a group whose members share the partitions of its topics."""
        for name in topics:
            self._connections.topics.partitions(name)
        return KafkaMember(self._connections.clients, group, topics, milliseconds(session_timeout))

    can_renew_locks = False

    def join_share_group(self, group: str, settings: ShareSettings) -> KafkaShareMember:
        """Join a share group and apply its settings; Kafka's client is a preview."""
        return KafkaShareMember(self._connections.clients, group, settings, self.append)

    @property
    def _connections(self) -> _Connections:
        if self._cached is None or not self._cached.clients.belongs_to_this_process:
            self._cached = _Connections(self._address)  # inherited connections stay with the parent process
        return self._cached


class _Connections:
    """The open connections of a process."""

    def __init__(self, address: KafkaAddress) -> None:
        self.clients = Clients(address)
        self.topics = KafkaTopics(self.clients)
        self.offsets = OffsetLookup(self.clients, self.topics)
        self.readers = ReaderPool(self.clients)
        self.timestamps = TimestampLookup(self.clients)
        self.plain_appends = PlainAppender(self.clients, self.topics)
        self.exactly_once_appends = ExactlyOnceAppender(self.clients, self.topics)
        self.groups = KafkaGroups(self.clients)
        self._writers: dict[str, KafkaFencedWriter] = {}
        self._local = threading.local()
        self._waiters: list[KafkaWaiter] = []
        self._all_arrivals: list[Arrivals] = []

    @property
    def waiter(self) -> KafkaWaiter:
        """The waiter of this thread."""
        waiter: KafkaWaiter | None = getattr(self._local, "waiter", None)
        if waiter is None:
            waiter = self._local.waiter = KafkaWaiter(self.clients)
            self._waiters.append(waiter)
        return waiter

    @property
    def arrivals(self) -> Arrivals | None:
        """What this thread receives in the background, if it does."""
        return getattr(self._local, "arrivals", None)

    def received_ends(self, positions: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        arrivals = self.arrivals
        if arrivals is None:
            arrivals = self._local.arrivals = Arrivals(self.clients)
            self._all_arrivals.append(arrivals)
        if arrivals.follows(positions):
            return arrivals.ends()
        arrivals.follow(positions)
        self.readers.discard(positions)
        return {}

    def fenced_writer(self, name: str) -> KafkaFencedWriter:
        if name not in self._writers:
            self._writers[name] = KafkaFencedWriter(self.clients, self.topics, name)
        return self._writers[name]

    def close(self) -> None:
        self.plain_appends.close()
        for writer in self._writers.values():
            writer.close()
        self.exactly_once_appends.close()
        self.readers.close()
        self.timestamps.close()
        self.groups.close()
        for waiter in self._waiters:
            waiter.close()
        for arrivals in self._all_arrivals:
            arrivals.close()
