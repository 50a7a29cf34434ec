"""The broker protocol, implemented by the embedded log and by Kafka.

Offsets grow within a partition but may have gaps (compaction, Kafka's control records): a reader continues from
``RecordChunk.next_offset`` and never adds up record counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, runtime_checkable

import msgspec

from millstream.errors import DefinitionError, LockLostError
from millstream.foundation.typed_decoding import convert
from millstream.records import TopicPartition

if TYPE_CHECKING:
    from millstream.durations import Duration
    from millstream.errors import MillstreamError
    from millstream.foundation.blocks import Block, Buffer

Acks = Literal["none", "written", "synced"]
"""none: fire and forget; written: survives a crash of the process; synced: survives a crash of the machine."""

TOMBSTONE_RETENTION_MS = 7 * 86_400_000
"""How long changelogs keep tombstones; a copy of a changelog that is older than this may have missed some."""


class TopicConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a topic; durations in milliseconds, None means unlimited."""

    partitions: int = 4
    timestamps: Literal["create", "append"] = "create"
    retention_ms: int | None = None
    retention_bytes: int | None = None
    """Per partition."""
    compact: bool = False
    tombstone_retention_ms: int = 86_400_000
    max_record_bytes: int = 1_048_576


class Offsets(msgspec.Struct, frozen=True):
    """Records ``begin <= offset < end`` of a partition can be read."""

    begin: int
    end: int


class TopicInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The current state of a topic; ``offsets`` and ``bytes`` have one entry per partition, ``bytes`` may be empty."""

    name: str
    config: TopicConfig
    offsets: tuple[Offsets, ...]
    bytes: tuple[int, ...]
    id: str = ""
    """Changes when the topic is deleted and created again."""

    @property
    def partitions(self) -> int:
        return self.config.partitions


class RecordChunk(msgspec.Struct, frozen=True):
    """Consecutive records of one partition, as a block of columns."""

    block: Block
    offsets: Sequence[int]
    next_offset: int


class Output(msgspec.Struct, frozen=True):
    """Records for one partition of a topic."""

    topic: str
    partition: int
    block: Block
    data: Buffer | None = None
    """The block as ``to_buffer`` encodes it, if that was done already: the embedded log stores it as it is."""


class GroupMember(msgspec.Struct, frozen=True, kw_only=True):
    """A live member of a consumer group and the partitions it owns; ``host`` is empty if it is on this host."""

    id: str
    process: int
    topics: tuple[str, ...]
    partitions: tuple[TopicPartition, ...]
    host: str = ""


class GroupInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A consumer group: its members and committed offsets."""

    name: str
    generation: int
    members: tuple[GroupMember, ...]
    committed: Mapping[TopicPartition, int]


class TopicAdmin(Protocol):
    """Create, change, describe and delete topics."""

    def create_topic(self, name: str, config: TopicConfig) -> None: ...
    def delete_topic(self, name: str) -> None: ...
    def alter_topic(self, name: str, **changes: Any) -> TopicInfo: ...
    def topic(self, name: str) -> TopicInfo: ...
    def topic_names(self) -> list[str]: ...
    def delete_before(self, topic: str, partition: int, offset: int) -> None: ...


class RecordReader(Protocol):
    """Read records and look up offsets."""

    def offsets(self, topic: str) -> list[Offsets]: ...

    def end_offsets(self, topic: str, partitions: int) -> list[int]:
        """Return the next offset of the first ``partitions`` partitions, which may be faster than ``offsets``."""

    def offset_at(self, topic: str, partition: int, timestamp: int) -> int | None:
        """Return the offset of the first record with ``timestamp`` or later, or None if there is none."""

    def timestamp_at(self, topic: str, partition: int, start: int, end: int) -> int | None:
        """Return the timestamp of the first record with ``start <= offset < end``, or None if there is none."""

    def read(self, topic: str, partition: int, start: int, end: int) -> Iterator[RecordChunk]:
        """Yield the records with ``start <= offset < end`` in order."""

    def wait(self, positions: Mapping[TopicPartition, int], timeout: float) -> bool:
        """Block until a partition has a record at or after its position; False after ``timeout`` seconds."""


class RecordWriter(Protocol):
    """Append records."""

    def append(self, outputs: Sequence[Output], *, acks: Acks = "synced") -> list[int]:
        """Append blocks and return the offset of the first record of each, -1 if unknown."""

    def append_once(self, producer: str, sequence: int, outputs: Sequence[Output], *, acks: Acks = "synced") -> None:
        """Append blocks unless ``producer`` has already appended this or a later ``sequence`` to the partition.

        A producer name with the prefix ``LINEAGE@`` has separate sequences in each lineage.
        """


class GroupAdmin(Protocol):
    """List, describe, move and delete consumer groups."""

    def group_names(self) -> list[str]: ...
    def group(self, name: str) -> GroupInfo: ...
    def members(self, group: str) -> tuple[GroupMember, ...]: ...
    def commit(self, group: str, offsets: Mapping[TopicPartition, int]) -> None: ...
    def committed(self, group: str) -> dict[TopicPartition, int]: ...
    def delete_group(self, name: str) -> None: ...

    def forget_producers(self, prefixes: Iterable[str]) -> None:
        """Forget the sequences of producers whose name, without its lineage, is a prefix followed by a number.

        A producer of another lineage can then use such a name.
        """


ReleaseCallback: TypeAlias = Callable[[frozenset[TopicPartition]], None]
"""Called with the partitions that a group member is about to lose, while it can still commit their offsets."""


class Membership(Protocol):
    """One consumer in a group, used by one thread."""

    @property
    def generation(self) -> int: ...

    def refresh(self, release: ReleaseCallback) -> frozenset[TopicPartition]:
        """Send a heartbeat and return the owned partitions; ``release`` is called first with those to be revoked."""

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit offsets of owned partitions; raise ``RebalancedError`` for others."""

    def leave(self) -> None: ...


@runtime_checkable
class SupportsMembership(Protocol):
    """A broker that distributes partitions among the members of a group."""

    def join_group(self, group: str, topics: Sequence[str], *, session_timeout: Duration) -> Membership: ...


AnswerKind = Literal["accept", "release", "reject", "renew", "unread"]
"""What becomes of an acquired record; unread: released, and its delivery does not count."""


class Answer(msgspec.Struct, frozen=True):
    """The answer of a member of a share group for the records ``first <= offset <= last`` that it has acquired."""

    partition: TopicPartition
    first: int
    last: int
    kind: AnswerKind
    delay_ms: int = 0
    """How long a released record waits before it is delivered again."""

    def lock_lost(self, group: str) -> LockLostError:
        """Return the error of an answer for records that the member no longer locks."""
        topic, partition = self.partition.topic, self.partition.partition
        return LockLostError(
            f"group {group!r} no longer locks {topic}[{partition}]@{self.first} for this member",
            hint="it is delivered again; give the group a longer lock",
            group=group,
            topic=topic,
            partition=partition,
            offset=self.first,
        )


class Refusal(msgspec.Struct, frozen=True):
    """An answer that came too late, and why."""

    answer: Answer
    error: MillstreamError


class Acquired(msgspec.Struct, frozen=True):
    """Records of one partition that a member has acquired, each for the ``deliveries``-th time."""

    partition: TopicPartition
    chunk: RecordChunk
    deliveries: int


class ShareSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How a share group delivers; ``start`` applies to partitions that the group has not read yet."""

    lock_ms: int = 30_000
    max_deliveries: int = 5
    start: Literal["earliest", "latest"] | int = "latest"
    """A number is a duration before now, in milliseconds."""


class ShareMember(Protocol):
    """One consumer in a share group, used by one thread."""

    def subscribe(self, topics: Sequence[str]) -> None: ...

    def poll(self, answers: Sequence[Answer], max_records: int, timeout: float) -> tuple[list[Acquired], list[Refusal]]:
        """Send answers and acquire records; acquire none, and do not wait, if an answer was refused.

        Records that were delivered more than ``max_deliveries`` times are returned too, to become dead letters.
        """

    def answer(self, answers: Sequence[Answer]) -> list[Refusal]:
        """Send answers."""

    def publish(self, letters: Mapping[tuple[TopicPartition, int], Output]) -> None:
        """Append the dead letters of acquired records, each once if the broker can tell."""

    def leave(self, answers: Sequence[Answer]) -> list[Refusal]:
        """Send answers, release all other records and leave the group."""


@runtime_checkable
class SupportsSharing(Protocol):
    """A broker with share groups: their members acquire single records instead of partitions."""

    @property
    def can_renew_locks(self) -> bool:
        """Whether a member can renew a lock and delay a release."""

    def join_share_group(self, group: str, settings: ShareSettings) -> ShareMember: ...


class SharedPartition(msgspec.Struct, frozen=True, kw_only=True):
    """The progress of a share group in a partition."""

    topic: str
    partition: int
    start: int
    """All earlier records are done."""
    end: int
    waiting: int
    in_flight: int
    redelivered: int
    """How many of the waiting and in-flight records were delivered before."""
    dead: int
    """How many records were rejected or delivered too often."""
    expired: int
    """How many records retention deleted before they were done."""


class ShareGroupInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A share group: its members and its progress; members own no partitions."""

    name: str
    members: tuple[GroupMember, ...]
    partitions: tuple[SharedPartition, ...]


@runtime_checkable
class SupportsShareGroupAdmin(Protocol):
    """A broker that can list, describe, move and delete share groups."""

    def share_group_names(self) -> list[str]: ...
    def share_group(self, name: str) -> ShareGroupInfo: ...

    def move_share_group(self, name: str, starts: Mapping[TopicPartition, int]) -> None:
        """Deliver all records from these offsets on again; refused while the group has live members."""

    def delete_share_group(self, name: str) -> None: ...


@runtime_checkable
class SupportsAppendTogether(Protocol):
    """A broker for which appending the blocks of several producers together is cheaper than one by one."""

    def append_together(self, sequence: int, outputs: Mapping[str, Sequence[Output]]) -> None:
        """Append the blocks of each producer as ``append_once`` does."""


class WriterLostError(Exception):
    """A writer was fenced, or the outcome of its last transaction is unknown: open it again, and read what is there."""


class FencedWriter(Protocol):
    """Transactions under one name: only the process that opened the name last can commit.

    Once ``open`` returns, no earlier process can commit under the name, and what they have committed can be read.
    """

    @property
    def is_open(self) -> bool: ...
    def open(self) -> None: ...

    def commit(self, outputs: Sequence[Output]) -> None:
        """Append blocks in one transaction; after a ``WriterLostError`` the writer is no longer open."""

    def close(self) -> None: ...


@runtime_checkable
class SupportsChangelogs(Protocol):
    """A broker with fenced writers and compacted topics, which can hold the state of apps."""

    def fenced_writer(self, name: str) -> FencedWriter: ...
    def create_changelog(self, topic: str, partitions: int) -> None: ...


class Broker(TopicAdmin, RecordReader, RecordWriter, GroupAdmin, Protocol):
    """A partitioned, ordered, replayable log."""

    @property
    def url(self) -> str: ...

    def cluster_id(self) -> str:
        """Return the id of the cluster or log, which does not depend on its address."""

    def close(self) -> None: ...


def append_together(broker: Broker, sequence: int, outputs: Mapping[str, Sequence[Output]]) -> None:
    """Append the blocks of several producers exactly once, with as few waits for the broker as possible."""
    if isinstance(broker, SupportsAppendTogether):
        broker.append_together(sequence, outputs)
        return
    for producer, blocks in outputs.items():
        broker.append_once(producer, sequence, blocks)


def check_config(config: TopicConfig) -> None:
    """Refuse settings that are out of range."""
    minimums = {
        "partitions": (config.partitions, 1),
        "retention_ms": (config.retention_ms, 1),
        "retention_bytes": (config.retention_bytes, 1),
        "tombstone_retention_ms": (config.tombstone_retention_ms, 0),
        "max_record_bytes": (config.max_record_bytes, 1),
    }
    for setting, (value, minimum) in minimums.items():
        if value is not None and value < minimum:
            raise DefinitionError(f"{setting} is {value!r}", hint=f"it must be at least {minimum}", setting=setting)


def apply_config_changes(name: str, config: TopicConfig, changes: Mapping[str, Any]) -> TopicConfig:
    """Return the settings of a topic with changes applied; the number of partitions can only grow."""
    known = TopicConfig.__struct_fields__
    if unknown := changes.keys() - set(known):
        raise DefinitionError(f"unknown topic setting {min(unknown)!r}", hint=f"use one of {known!r}")
    try:
        changed = convert({**msgspec.structs.asdict(config), **changes}, TopicConfig)
    except msgspec.ValidationError as error:
        raise DefinitionError(f"topic {name!r} cannot be changed: {error}", topic=name) from error
    check_config(changed)
    if changed.partitions < config.partitions:
        raise DefinitionError(
            f"topic {name!r} has {config.partitions} partitions and cannot shrink to {changed.partitions}",
            hint="records would be lost; create a new topic",
            topic=name,
        )
    return changed
