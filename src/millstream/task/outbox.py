"""The outbox: what a task has to say to topics and to other stages, stored with its state before it is said."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec
import numpy as np

from millstream.blocks import Block, block_of, from_bytes, to_bytes
from millstream.broker import Output
from millstream.operators.runtime import Columns
from millstream.partitioning import partitions_of


class Letter(msgspec.Struct, array_like=True):
    """Encoded records for one partition of a topic or, if ``edge`` is given, for one task of another stage."""

    partition: int
    data: bytes
    topic: str = ""
    edge: str = ""


class Outbox:
    """Columns of outgoing records by topic and edge."""

    def __init__(self) -> None:
        self.topics: dict[str, Columns] = {}
        self.edges: dict[str, Columns] = {}

    def letters(
        self, topic_partitions: Callable[[str], int], edge_partitions: Callable[[str], int], spread: int
    ) -> list[Letter]:
        """Split everything by partition; records without key go to partition ``spread``, wrapped around."""
        found: list[Letter] = []
        for topic, columns in self.topics.items():
            count = topic_partitions(topic)
            for partition, block in _split(columns, columns.keys, count, spread % count):
                found.append(Letter(partition=partition, data=to_bytes(block), topic=topic))
        for edge, columns in self.edges.items():
            for partition, block in _split(columns, columns.routes, edge_partitions(edge), 0):
                found.append(Letter(partition=partition, data=to_bytes(block), edge=edge))
        return found

    @property
    def records(self) -> int:
        """Number of records for topics."""
        return sum(len(columns.keys) for columns in self.topics.values())


def _split(columns: Columns, routes: list[bytes | None], count: int, keyless: int) -> Iterator[tuple[int, Block]]:
    if not columns.keys:
        return
    headers = [columns.headers.get(row, ()) for row in range(len(columns.keys))] if columns.headers else None
    block = block_of(columns.keys, columns.values, columns.timestamps, headers)
    if count == 1:
        yield 0, block
        return
    keyed = [route for route in routes if route is not None]
    targets = np.full(len(routes), keyless, np.int64)
    targets[[route is not None for route in routes]] = partitions_of(keyed, count)
    for partition in range(count):
        rows = np.flatnonzero(targets == partition)
        if len(rows):
            yield partition, block if len(rows) == len(block) else block.take(rows)


def outputs(letters: list[Letter]) -> list[Output]:
    """Return the letters to topics in the form that a broker appends."""
    return [Output(one.topic, one.partition, from_bytes(one.data)) for one in letters if one.topic]
