"""A Kafka cluster as a broker: a thin front to everything else here."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Self

from millstream.broker import Acks, GroupInfo, Offsets, Output, RecordChunk, TopicConfig, TopicInfo
from millstream.durations import Duration, milliseconds
from millstream.kafka.address import Address
from millstream.kafka.clients import Clients
from millstream.kafka.exactly_once_appends import Publisher
from millstream.kafka.groups import Groups
from millstream.kafka.members import Member
from millstream.kafka.offsets import OffsetLookup
from millstream.kafka.plain_appends import Appender
from millstream.kafka.reading import Readers
from millstream.kafka.timestamp_lookup import Glance
from millstream.kafka.topics import Topics
from millstream.kafka.waiting import Waiter
from millstream.records import TopicPartition


class KafkaBroker:
    """A broker on a Kafka cluster; readers see committed records only.

    Nothing is connected until it is needed, and a process that was forked makes connections of its own.
    """

    def __init__(self, url: str) -> None:
        self._address = Address.parse(url)
        self._parts: _Parts | None = None

    @property
    def url(self) -> str:
        """Where the cluster is and how to get in, in the form that ``broker=`` takes."""
        return self._address.url

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Send what is waiting and let go of all connections."""
        if self._parts is not None and self._parts.clients.is_ours:
            self._parts.close()
        self._parts = None

    def create_topic(self, name: str, config: TopicConfig) -> None:
        """Create a topic."""
        self._all.topics.create(name, config)

    def delete_topic(self, name: str) -> None:
        """Delete a topic with its records."""
        self._all.topics.delete(name)

    def alter_topic(self, name: str, **changes: Any) -> TopicInfo:
        """Change settings of a topic, named as in ``TopicConfig``; partitions can only grow."""
        self._all.topics.alter(name, changes)
        return self.topic(name)

    def topic(self, name: str) -> TopicInfo:
        """Describe a topic as it is now; how many bytes it has is not known to clients."""
        return TopicInfo(name=name, config=self._all.topics.config(name), offsets=tuple(self.offsets(name)), bytes=())

    def topic_names(self) -> list[str]:
        """Return the names of all topics in order, without Kafka's own."""
        return self._all.topics.names()

    def delete_before(self, topic: str, partition: int, offset: int) -> None:
        """Forget the records of a partition before ``offset``."""
        self._all.offsets.delete_before(topic, partition, offset)

    def append(self, outputs: Sequence[Output], *, acks: Acks = "synced") -> list[int]:
        """Append blocks and return the offset of the first record of each; -1 with ``acks="none"``."""
        return self._all.appender.append(outputs, acks)

    def append_once(self, producer: str, sequence: int, outputs: Sequence[Output], *, acks: Acks = "synced") -> None:  # noqa: ARG002 - a transaction always waits for all copies
        """Append blocks in one transaction, unless this or a later ``sequence`` of ``producer`` was appended."""
        self._all.publisher.publish(producer, sequence, outputs)

    def offsets(self, topic: str) -> list[Offsets]:
        """Return begin and end of each partition; it ends where the oldest open transaction begins."""
        return self._all.offsets.bounds(topic)

    def offset_at(self, topic: str, partition: int, timestamp: int) -> int | None:
        """Return the first offset whose record has ``timestamp`` or later, or None if there is none."""
        return self._all.offsets.at(topic, partition, timestamp)

    def timestamp_at(self, topic: str, partition: int, start: int, end: int) -> int | None:
        """Return the time of the first record with ``start <= offset < end``, or None if there is none."""
        self._all.offsets.check_partition(topic, partition)
        return self._all.glance.timestamp_at(topic, partition, start, end)

    def read(self, topic: str, partition: int, start: int, end: int) -> Iterator[RecordChunk]:
        """Yield the records with ``start <= offset < end`` in order, across gaps."""
        self._all.offsets.check_partition(topic, partition)
        return self._all.readers.read(topic, partition, start, end)

    def wait(self, positions: Mapping[TopicPartition, int], timeout: float) -> bool:
        """Block until a partition has a record at or after its position; False if none came in time."""

        def has_more() -> bool:
            ends = {topic: self.offsets(topic) for topic in {each.topic for each in positions}}
            return any(ends[each.topic][each.partition].end > at for each, at in positions.items())

        return self._all.waiter.wait(positions, timeout, has_more)

    def group_names(self) -> list[str]:
        """Return the names of all consumer groups in order."""
        return self._all.groups.names()

    def group(self, name: str) -> GroupInfo:
        """Describe a consumer group."""
        return self._all.groups.info(name)

    def commit(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Move a group that has no live members; a member commits through its consumer."""
        self._all.groups.commit(group, offsets)

    def committed(self, group: str) -> dict[TopicPartition, int]:
        """Return the committed offsets of a group."""
        return self._all.groups.committed(group)

    def delete_group(self, name: str) -> None:
        """Forget a group that has no live members."""
        self._all.groups.delete(name)

    def forget_producers(self, prefixes: Iterable[str]) -> None:
        """Delete the markers of producers whose name begins so; they must not publish meanwhile."""
        self._all.groups.delete_markers(prefixes)

    def join_group(self, group: str, topics: Sequence[str], *, session_timeout: Duration = "10 s") -> Member:
        """Become a member of a group that shares the partitions of its topics."""
        for name in topics:
            self._all.topics.partitions(name)
        return Member(self._all.clients, group, topics, milliseconds(session_timeout))

    @property
    def _all(self) -> _Parts:
        if self._parts is None or not self._parts.clients.is_ours:
            self._parts = _Parts(self._address)  # those of the parent process are left to it
        return self._parts


class _Parts:
    """What a process has open."""

    def __init__(self, address: Address) -> None:
        self.clients = Clients(address)
        self.topics = Topics(self.clients)
        self.offsets = OffsetLookup(self.clients, self.topics)
        self.readers = Readers(self.clients)
        self.glance = Glance(self.clients)
        self.appender = Appender(self.clients, self.topics)
        self.publisher = Publisher(self.clients, self.topics)
        self.groups = Groups(self.clients)
        self._local = threading.local()
        self._waiters: list[Waiter] = []

    @property
    def waiter(self) -> Waiter:
        """This thread's ear."""
        waiter: Waiter | None = getattr(self._local, "waiter", None)
        if waiter is None:
            waiter = self._local.waiter = Waiter(self.clients)
            self._waiters.append(waiter)
        return waiter

    def close(self) -> None:
        self.appender.close()
        self.publisher.close()
        self.readers.close()
        self.glance.close()
        self.groups.close()
        for waiter in self._waiters:
            waiter.close()
