"""PRINT: the records of a topic, decoded if a stream or table declares it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from millstream.broker import Broker
from millstream.foundation.text import parse_json
from millstream.queries.answers import Change
from millstream.records import Record, Windowed
from millstream.sql.catalog import Catalog, Relation
from millstream.sql.nodes import Print
from millstream.sql.showing import ShownColumn
from millstream.sql.types import BIGINT, INTEGER, STRING
from millstream.views.records import beginning_offsets, end_offsets, read_range, record_bytes, topic_partitions

_MOST = 1_000
"""How many records of a partition are read at once."""
_MOST_BYTES = 16 << 20
"""How many bytes of all partitions are read at once, or one record."""
_COLUMNS = {"ROWTIME": BIGINT, "KEY": STRING, "VALUE": STRING, "PARTITION": INTEGER, "OFFSET": BIGINT}


class PrintedTopic:
    """The records of a topic, from now on or from the beginning, until LIMIT or until it is closed."""

    columns = tuple(ShownColumn(name, kind) for name, kind in _COLUMNS.items())

    def __init__(self, statement: Print, catalog: Catalog, broker: Broker) -> None:
        self._broker = broker
        partitions = topic_partitions(broker, (statement.topic,), None)
        offsets = beginning_offsets if statement.from_beginning else end_offsets
        self._positions = offsets(broker, partitions)
        self._left = statement.limit
        self._interval = statement.interval
        self._seen = 0
        relations = (each for each in catalog.relations.values() if each.topic == statement.topic)
        self._relation: Relation | None = next(relations, None)

    def take(self, timeout: float) -> list[Change] | None:
        """Return the next records, none after ``timeout`` seconds without any, None after the last one."""
        if self._left == 0:
            return None
        ends = end_offsets(self._broker, list(self._positions))
        records: list[Record] = []
        size = 0
        for partition, start in list(self._positions.items()):
            stop = min(ends[partition], start + _MOST)
            for record in read_range(self._broker, partition, start, stop):
                records.append(record)
                size += record_bytes(record)
                if size > _MOST_BYTES:
                    stop = record.offset + 1
                    break
            self._positions[partition] = max(start, stop)
            if size > _MOST_BYTES:
                self._positions[partition] = self._positions.pop(partition)  # the others come first the next time
                break
        if not records:
            self._broker.wait(self._positions, timeout)
            return []
        return self._chosen(sorted(records, key=lambda record: record.timestamp))

    def _chosen(self, records: list[Record]) -> list[Change]:
        chosen = [record for number, record in enumerate(records, self._seen) if number % self._interval == 0]
        self._seen += len(records)
        if self._left is not None:
            chosen = chosen[: self._left]
            self._left -= len(chosen)
        return [Change(self._values(record)) for record in chosen]

    def _values(self, record: Record) -> list[Any]:
        relation = self._relation
        key, value = record.key, record.value
        if relation is not None:
            key, value = _decoded(relation.key_serde.decode, key), _decoded(relation.value_serde.decode, value)
        else:
            key, value = parse_json(key), parse_json(value)
        if isinstance(key, Windowed):
            key = {"key": key.key, "start": key.start, "end": key.end}
        return [record.timestamp, key, value, record.partition, record.offset]

    def close(self) -> None:
        """Do nothing: nothing is open."""


def _decoded(decode: Callable[[bytes], Any], data: bytes | None) -> Any:
    try:
        return None if data is None else decode(data)
    except Exception:  # each format has errors of its own
        return parse_json(data)
