"""The outbox: what a task has to say to topics and to other stages, stored with its state before it is said."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import numpy as np

from millstream.broker import Output
from millstream.foundation.blocks import Block, Rows, block_of, from_bytes, joined, picked, to_bytes
from millstream.foundation.partitioning import partitions_of
from millstream.operators.runtime import Columns, EdgeColumns
from millstream.task.shuffle_format import parcels_of


class OutboxBlock(msgspec.Struct, array_like=True):
    """A block for one partition of a topic or, if ``edge`` is given, a parcel for one task of another stage."""

    partition: int
    data: bytes
    topic: str = ""
    edge: str = ""


class Outbox:
    """Columns of outgoing records by topic and edge."""

    def __init__(self) -> None:
        self.topics: dict[str, Columns] = {}
        self.edges: dict[str, EdgeColumns] = {}

    def letters(
        self, topic_partitions: Callable[[str], int], edge_partitions: Callable[[str], int], spread: int
    ) -> list[OutboxBlock]:
        """Split everything by partition; records without key go to partition ``spread``, wrapped around."""
        found: list[OutboxBlock] = []
        for topic, columns in self.topics.items():
            if len(columns):
                count = topic_partitions(topic)
                targets = None if count == 1 else _targets(columns.keys, count, spread % count)
                parts = _split(columns, targets, count)
                found.extend(OutboxBlock(partition=part, data=to_bytes(block), topic=topic) for part, block in parts)
        for edge, sent in self.edges.items():
            if len(sent):
                parcels = parcels_of(sent, edge_partitions(edge))
                found.extend(OutboxBlock(partition=task, data=parcel, edge=edge) for task, parcel in parcels)
        return found

    @property
    def records(self) -> int:
        """Number of records for topics."""
        return sum(len(columns) for columns in self.topics.values())


def _targets(keys: list[bytes | None], count: int, keyless: int) -> Any:
    """Return the partition of each record."""
    if None not in keys:
        return partitions_of(keys, count)  # type: ignore[arg-type]
    targets = np.full(len(keys), keyless, np.int64)
    targets[[key is not None for key in keys]] = partitions_of([key for key in keys if key is not None], count)
    return targets


def _split(columns: Columns, targets: Any, count: int) -> Iterator[tuple[int, Block]]:
    headers = [columns.headers.get(row, ()) for row in range(len(columns))] if columns.headers else None
    whole: Block | None = None
    if columns.packed:
        whole = block_of(columns.keys, joined(columns.all_packed), columns.timestamps, headers)
    records = Rows(columns.keys, columns.values, columns.timestamps, headers)
    for partition in range(count):
        places = None if targets is None else np.flatnonzero(targets == partition)
        if places is None or len(places) == len(columns):
            yield partition, records.block() if whole is None else whole
        elif len(places):
            yield partition, records.take(places.tolist()).block() if whole is None else picked(whole, places)


def outputs(letters: list[OutboxBlock]) -> list[Output]:
    """Return the letters to topics in the form that a broker appends."""
    return [Output(one.topic, one.partition, from_bytes(one.data)) for one in letters if one.topic]
