"""Move the committed offsets of a consumer group."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import msgspec

from millstream.broker import Broker, Offsets, ShareGroupInfo, SupportsShareGroupAdmin
from millstream.errors import DefinitionError, StateError
from millstream.foundation.paths import app_names
from millstream.foundation.times import parse_timestamp
from millstream.records import TopicPartition
from millstream.views.share_groups import share_group


class Move(msgspec.Struct, frozen=True, kw_only=True):
    """A change of a committed offset."""

    topic: str
    partition: int
    before: int | None
    after: int


def planned_moves(broker: Broker, data_dir: Path, group: str, to: str, topics: Sequence[str] = ()) -> list[Move]:
    """Return the moves of a group to a position in these topics, or in all it has committed; nothing is changed."""
    if group in app_names(data_dir):
        raise StateError(
            f"group {group!r} belongs to the app of that name, which continues from its journal",
            hint="use millstream reset, or run the app under another id, to process records again",
        )
    shared = share_group(broker, group)
    committed = broker.committed(group) if shared is None else _starts(shared)
    topics = topics or sorted({partition.topic for partition in committed})
    if not topics:
        raise DefinitionError(f"group {group!r} has no committed offsets", hint="name a topic with --topic")
    bounds = {
        TopicPartition(topic, number): offsets
        for topic in topics
        for number, offsets in enumerate(broker.offsets(topic))
    }
    return [
        Move(
            topic=partition.topic,
            partition=partition.partition,
            before=committed.get(partition),
            after=resolve_offset(broker, partition, offsets, to),
        )
        for partition, offsets in bounds.items()
    ]


def execute_moves(broker: Broker, group: str, moves: Sequence[Move]) -> None:
    """Commit the moves of a group; the broker rejects them if the group has live members."""
    offsets = {TopicPartition(move.topic, move.partition): move.after for move in moves}
    if isinstance(broker, SupportsShareGroupAdmin) and share_group(broker, group) is not None:
        broker.move_share_group(group, offsets)
    else:
        broker.commit(group, offsets)


def _starts(info: ShareGroupInfo) -> dict[TopicPartition, int]:
    return {TopicPartition(partition.topic, partition.partition): partition.start for partition in info.partitions}


def resolve_offset(broker: Broker, partition: TopicPartition, bounds: Offsets, to: str) -> int:
    """Return the offset of a position: ``earliest``, ``latest``, an offset, a time or a duration ago."""
    if to in ("earliest", "latest"):
        return bounds.begin if to == "earliest" else bounds.end
    if re.fullmatch(r"\d{1,18}", to):
        return min(max(int(to), bounds.begin), bounds.end)
    timestamp = parse_timestamp(to)
    if timestamp is None:
        raise DefinitionError(
            f"{to!r} is not a valid position in a topic",
            hint='write earliest, latest, an offset, "2025-01-31T12:00" or, for a time ago, "10 min"',
        )
    offset = broker.offset_at(partition.topic, partition.partition, timestamp)
    return bounds.end if offset is None else offset
