"""Write the events of Nexmark to topics."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

import msgspec
from benchmarks.nexmark.model import Event, side_rows
from benchmarks.nexmark.results import key_of, topic_of

from millstream.broker import Broker, Output, TopicConfig
from millstream.foundation.blocks import block_of
from millstream.foundation.partitioning import partition_of

BLOCK = 10_000
TOPICS = ("person", "auction", "bid", "side")


class Columns(NamedTuple):
    """Records that wait to be appended to a partition."""

    keys: list[bytes | None]
    values: list[bytes]
    timestamps: list[int]


def create_topics(broker: Broker, partitions: int) -> None:
    """Create the topics of the events."""
    for topic in TOPICS:
        broker.create_topic(topic, TopicConfig(partitions=partitions))


def load(broker: Broker, events: Sequence[Event], partitions: int, topics: Collection[str] = TOPICS) -> None:
    """Fill the topics: by key, and bids, which have none, by turns."""
    side = [("side", b"%d" % key, msgspec.json.encode(row), events[0].time) for key, row in side_rows()]
    _append(broker, [record for record in side if record[0] in topics], partitions)
    for start in range(0, len(events), BLOCK):
        part = events[start : start + BLOCK]
        records = [
            (topic, key_of(event), msgspec.json.encode(event), event.time)
            for event in part
            if (topic := topic_of(event)) in topics
        ]
        _append(broker, records, partitions)


def _append(broker: Broker, records: Iterable[tuple[str, bytes | None, bytes, int]], partitions: int) -> None:
    waiting: dict[tuple[str, int], Columns] = {}
    for number, (topic, key, value, timestamp) in enumerate(records):
        partition = number % partitions if key is None else partition_of(key, partitions)
        columns = waiting.setdefault((topic, partition), Columns([], [], []))
        columns.keys.append(key)
        columns.values.append(value)
        columns.timestamps.append(timestamp)
    broker.append([Output(topic, partition, block_of(*columns)) for (topic, partition), columns in waiting.items()])
