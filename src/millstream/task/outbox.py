"""The outbox: records for topics and for other stages, stored with the task's state before they are published."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

import msgspec
import numpy as np

from millstream.broker import Output
from millstream.foundation.blocks import Block, Rows, block_of, concat_columns, from_bytes, take_rows, to_bytes
from millstream.foundation.partitioning import partitions_of
from millstream.operators.runtime import Columns, EdgeColumns
from millstream.task.shuffle_format import shuffle_blocks


class OutboxBlock(msgspec.Struct, array_like=True, dict=True):
    """Records for one partition of a topic or, if ``edge`` is set, shuffle data for one task of another stage."""

    partition: int
    data: bytes
    topic: str = ""
    edge: str = ""

    @classmethod
    def for_topic(cls, topic: str, partition: int, records: Block) -> OutboxBlock:
        """Return records for a topic, encoded; they are kept, so that publishing them decodes nothing."""
        block = cls(partition=partition, data=to_bytes(records), topic=topic)
        block.__dict__["records"] = records
        return block

    @cached_property
    def records(self) -> Block:
        """The records for a topic."""
        return from_bytes(self.data)


class Outbox:
    """Columns of outgoing records by topic and edge."""

    def __init__(self) -> None:
        self.topics: dict[str, Columns] = {}
        self.edges: dict[str, EdgeColumns] = {}

    def blocks(
        self, topic_partitions: Callable[[str], int], edge_partitions: Callable[[str], int], spread: int
    ) -> list[OutboxBlock]:
        """Split all records by partition; those without a key go to partition ``spread`` modulo the partition count."""
        blocks: list[OutboxBlock] = []
        for topic, columns in self.topics.items():
            if len(columns):
                count = topic_partitions(topic)
                targets = None if count == 1 else _targets(columns, count, spread % count)
                for partition, block in _split(columns, targets, count):
                    blocks.append(OutboxBlock.for_topic(topic, partition, block))
        for edge, edge_columns in self.edges.items():
            if len(edge_columns):
                for task, data in shuffle_blocks(edge_columns, edge_partitions(edge)):
                    blocks.append(OutboxBlock(partition=task, data=data, edge=edge))
        return blocks

    @property
    def records(self) -> int:
        """Number of records for topics."""
        return sum(len(columns) for columns in self.topics.values())


def _targets(columns: Columns, count: int, keyless: int) -> Any:
    """Return the partition of each record."""
    routes, by_row = columns.keys, columns.key_routes
    if by_row:
        routes = [by_row.get(row, key) for row, key in enumerate(routes)]
    if None not in routes:
        targets = partitions_of(routes, count)  # type: ignore[arg-type]
    else:
        targets = np.full(len(routes), keyless, np.int64)
        keyed = [route is not None for route in routes]
        targets[keyed] = partitions_of([route for route in routes if route is not None], count)
    for row, partition in columns.targets.items():
        targets[row] = partition
    return targets


def _split(columns: Columns, targets: Any, count: int) -> Iterator[tuple[int, Block]]:
    headers = [columns.headers.get(row, ()) for row in range(len(columns))] if columns.headers else None
    packed: Block | None = None
    if columns.packed:
        packed = block_of(columns.keys, concat_columns(columns.all_packed), columns.timestamps, headers)
    records = Rows(columns.keys, columns.values, columns.timestamps, headers)
    for partition in range(count):
        rows = None if targets is None else np.flatnonzero(targets == partition)
        if rows is None or len(rows) == len(columns):
            yield partition, records.block() if packed is None else packed
        elif len(rows):
            yield partition, records.take(rows.tolist()).block() if packed is None else take_rows(packed, rows)


def topic_outputs(blocks: list[OutboxBlock]) -> list[Output]:
    """Return the blocks for topics in the form that a broker appends."""
    return [Output(block.topic, block.partition, block.records, block.data) for block in blocks if block.topic]
