"""Move the committed offsets of a consumer group."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import msgspec

from millstream.broker import Broker, Offsets
from millstream.errors import DefinitionError, StateError
from millstream.foundation.paths import app_names
from millstream.foundation.times import parse_timestamp
from millstream.records import TopicPartition


class Move(msgspec.Struct, frozen=True, kw_only=True):
    """A change of a committed offset."""

    topic: str
    partition: int
    before: int | None
    after: int


def planned_moves(broker: Broker, data_dir: Path, group: str, to: str, topics: Sequence[str] = ()) -> list[Move]:
    """Return how to move a group to a place in these topics, or in all that it has read; nothing is changed yet."""
    if group in app_names(data_dir):
        raise StateError(
            f"group {group!r} belongs to the app of that name, which goes on from its own journal",
            hint="give the app another id to process everything again",
        )
    committed = broker.committed(group)
    chosen = topics or sorted({at.topic for at in committed})
    if not chosen:
        raise DefinitionError(f"group {group!r} has read no topic", hint="name one with --topic")
    places = [TopicPartition(topic, number) for topic in chosen for number in range(broker.topic(topic).partitions)]
    there = {topic: broker.offsets(topic) for topic in chosen}
    return [
        Move(
            topic=at.topic,
            partition=at.partition,
            before=committed.get(at),
            after=place_in(broker, at, there[at.topic][at.partition], to),
        )
        for at in places
    ]


def execute_moves(broker: Broker, group: str, moves: Sequence[Move]) -> None:
    """Move a group; one that has live consumers is refused by the broker."""
    broker.commit(group, {TopicPartition(move.topic, move.partition): move.after for move in moves})


def place_in(broker: Broker, at: TopicPartition, there: Offsets, to: str) -> int:
    """Return the offset that a word, a number, a time or a duration before now means in a partition."""
    if to in ("earliest", "latest"):
        return there.begin if to == "earliest" else there.end
    if re.fullmatch(r"\d{1,18}", to):
        return min(max(int(to), there.begin), there.end)
    timestamp = parse_timestamp(to)
    if timestamp is None:
        raise DefinitionError(
            f"{to!r} is no place in a topic",
            hint='write earliest, latest, an offset, "2025-01-31T12:00" or, for a time ago, "10 min"',
        )
    found = broker.offset_at(at.topic, at.partition, timestamp)
    return there.end if found is None else found
