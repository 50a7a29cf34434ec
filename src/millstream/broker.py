"""The protocol between Millstream and a log: the embedded one and Kafka implement it alike.

Offsets grow within a partition but may have gaps (compaction, Kafka's control records): a reader goes on from
``Chunk.next_offset`` and never counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, runtime_checkable

import msgspec

from millstream.errors import DefinitionError
from millstream.records import TopicPartition

if TYPE_CHECKING:
    from millstream.durations import Duration
    from millstream.foundation.blocks import Block

Acks = Literal["none", "written", "synced"]
"""none: fire and forget; written: survives the process; synced: survives the machine."""


class TopicConfig(msgspec.Struct, frozen=True, kw_only=True):
    """What a topic is told when it is created; durations in milliseconds, None means without limit."""

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
    """A topic as it is now; ``offsets`` and ``bytes`` have one entry per partition, ``bytes`` none if not known."""

    name: str
    config: TopicConfig
    offsets: tuple[Offsets, ...]
    bytes: tuple[int, ...]

    @property
    def partitions(self) -> int:
        return self.config.partitions


class Chunk(msgspec.Struct, frozen=True):
    """Consecutive records of one partition, as a block of columns."""

    block: Block
    offsets: Sequence[int]
    next_offset: int


class Output(msgspec.Struct, frozen=True):
    """Records for one partition of a topic."""

    topic: str
    partition: int
    block: Block


class GroupMember(msgspec.Struct, frozen=True, kw_only=True):
    """A live consumer of a group and the partitions it owns."""

    id: str
    process: int
    topics: tuple[str, ...]
    partitions: tuple[TopicPartition, ...]


class GroupInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A consumer group: who is in it and how far it has read."""

    name: str
    generation: int
    members: tuple[GroupMember, ...]
    committed: Mapping[TopicPartition, int]


class Topics(Protocol):
    """What every broker can do with topics."""

    def create_topic(self, name: str, config: TopicConfig) -> None: ...
    def delete_topic(self, name: str) -> None: ...
    def alter_topic(self, name: str, **changes: Any) -> TopicInfo: ...
    def topic(self, name: str) -> TopicInfo: ...
    def topic_names(self) -> list[str]: ...
    def delete_before(self, topic: str, partition: int, offset: int) -> None: ...


class Reading(Protocol):
    """What every broker can do for readers."""

    def offsets(self, topic: str) -> list[Offsets]: ...

    def offset_at(self, topic: str, partition: int, timestamp: int) -> int | None:
        """Return the first offset whose record has ``timestamp`` or later, or None if there is none."""

    def time_at(self, topic: str, partition: int, start: int, end: int) -> int | None:
        """Return the time of the first record with ``start <= offset < end``, or None if there is none."""

    def read(self, topic: str, partition: int, start: int, end: int) -> Iterator[Chunk]:
        """Yield the records with ``start <= offset < end`` in order."""

    def wait(self, positions: Mapping[TopicPartition, int], timeout: float) -> bool:
        """Block until a partition has a record at or after its position; False if none came in time."""


class Writing(Protocol):
    """What every broker can do for writers."""

    def append(self, outputs: Sequence[Output], *, acks: Acks = "synced") -> list[int]:
        """Append blocks and return the offset of the first record of each, -1 if it is not known."""

    def append_once(self, producer: str, sequence: int, outputs: Sequence[Output], *, acks: Acks = "synced") -> None:
        """Append blocks unless ``producer`` has already appended this or a later ``sequence`` to the partition.

        A producer that begins with ``LINEAGE@`` counts its sequences anew in each lineage.
        """


class Groups(Protocol):
    """Committed offsets and membership of consumer groups."""

    def group_names(self) -> list[str]: ...
    def group(self, name: str) -> GroupInfo: ...
    def commit(self, group: str, offsets: Mapping[TopicPartition, int]) -> None: ...
    def committed(self, group: str) -> dict[TopicPartition, int]: ...
    def delete_group(self, name: str) -> None: ...

    def forget_producers(self, prefixes: Iterable[str]) -> None:
        """Forget what producers have published whose name, without its lineage, begins with a prefix and a number.

        Whoever takes such a name in another lineage may then publish under it.
        """


Release: TypeAlias = Callable[[frozenset[TopicPartition]], None]
"""Called with partitions that a group member is about to lose, while it may still commit them."""


class Membership(Protocol):
    """One consumer in a group, used by one thread."""

    @property
    def generation(self) -> int: ...

    def refresh(self, release: Release) -> frozenset[TopicPartition]:
        """Show life and return the partitions owned now; ``release`` is told first which are to be given up."""

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit offsets of owned partitions; those of others are a ``RebalancedError``."""

    def leave(self) -> None: ...


@runtime_checkable
class Joinable(Protocol):
    """A broker that shares out partitions among the members of a group."""

    def join_group(self, group: str, topics: Sequence[str], *, session_timeout: Duration) -> Membership: ...


@runtime_checkable
class Gathering(Protocol):
    """A broker for which it is cheaper to append what several producers have at once."""

    def append_together(self, sequence: int, outputs: Mapping[str, Sequence[Output]]) -> None:
        """Append the blocks of each producer, as ``append_once`` does for one."""


class Broker(Topics, Reading, Writing, Groups, Protocol):
    """A partitioned, ordered, replayable log."""

    @property
    def url(self) -> str: ...
    def close(self) -> None: ...


def append_together(broker: Broker, sequence: int, outputs: Mapping[str, Sequence[Output]]) -> None:
    """Append blocks of several producers, each once, with as few waits for the broker as it allows."""
    if isinstance(broker, Gathering):
        broker.append_together(sequence, outputs)
        return
    for producer, own in outputs.items():
        broker.append_once(producer, sequence, own)


def check_config(config: TopicConfig) -> None:
    """Refuse settings that make no sense."""
    at_least = {
        "partitions": (config.partitions, 1),
        "retention_ms": (config.retention_ms, 1),
        "retention_bytes": (config.retention_bytes, 1),
        "tombstone_retention_ms": (config.tombstone_retention_ms, 0),
        "max_record_bytes": (config.max_record_bytes, 1),
    }
    for setting, (value, least) in at_least.items():
        if value is not None and value < least:
            raise DefinitionError(f"{setting} is {value!r}", hint=f"it must be at least {least}", setting=setting)


def changed_config(name: str, config: TopicConfig, changes: Mapping[str, Any]) -> TopicConfig:
    """Return the settings of a topic after a change; partitions can only grow."""
    unknown = changes.keys() - set(TopicConfig.__struct_fields__)
    if unknown:
        raise DefinitionError(
            f"topics have no setting {min(unknown)!r}", hint=f"there are {TopicConfig.__struct_fields__!r}"
        )
    try:
        changed = msgspec.convert({**msgspec.structs.asdict(config), **changes}, TopicConfig)
    except msgspec.ValidationError as error:
        raise DefinitionError(f"topic {name!r} cannot be changed: {error}", topic=name) from error
    check_config(changed)
    if changed.partitions < config.partitions:
        raise DefinitionError(
            f"topic {name!r} has {config.partitions} partitions and cannot shrink to {changed.partitions}",
            hint="records would be lost; create another topic",
            topic=name,
        )
    return changed
