"""Row events of the binary log, decoded to changes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from millstream.connectors.change_data.cells import cells_of_rows
from millstream.connectors.change_data.changes import TableChanges
from millstream.connectors.change_data.relation import DELETE, FULL_IDENTITY, INSERT, UPDATE, ReplicatedTable
from millstream.connectors.mysql_cdc.charsets import Charsets
from millstream.connectors.mysql_cdc.column_types import logged_column
from millstream.connectors.mysql_cdc.events import DELETES, UPDATES, rows_start
from millstream.connectors.mysql_cdc.row_values import ReadValue, value_reader
from millstream.connectors.mysql_cdc.table_maps import TableMap
from millstream.errors import ConnectorError

Row: TypeAlias = list[bytes | None]
_DECODED_BYTES = 256 << 10
"""Decoded at a time, so that arrays stay in the caches of the processor."""


class RowEvent(NamedTuple):
    """Rows that one statement wrote to one table."""

    kind: int
    event: bytes
    time: int
    """Seconds since 1970."""
    end: int
    transaction: int


class LoggedTable:
    """A table as the log describes it, and how to read its rows."""

    def __init__(self, table_map: TableMap, charsets: Charsets) -> None:
        columns = tuple(map(logged_column, table_map.columns))
        self.relation = ReplicatedTable(table_map.database, table_map.table, columns, identity=FULL_IDENTITY)
        if not self.relation.key_indexes:
            raise ConnectorError(f"table {self.relation.name} has no primary key", hint="add one")
        self._readers: list[ReadValue] = [value_reader(column, charsets) for column in table_map.columns]
        self._null_bytes = (len(columns) + 7) // 8

    def rows(self, data: bytes, at: int) -> Iterator[Row]:
        """Read rows up to the end."""
        readers, null_bytes, end = self._readers, self._null_bytes, len(data)
        while at < end:
            nulls = int.from_bytes(data[at : at + null_bytes], "little")
            at += null_bytes
            row: Row = []
            if nulls:
                for index, read in enumerate(readers):
                    if nulls >> index & 1:
                        row.append(None)
                    else:
                        value, at = read(data, at)
                        row.append(value)
            else:
                for read in readers:
                    value, at = read(data, at)
                    row.append(value)
            yield row


class LoggedRun:
    """Consecutive row events of one table, which are not decoded yet."""

    def __init__(self, topic: str, table: LoggedTable) -> None:
        self.topic = topic
        self.table = table
        self.events: list[RowEvent] = []

    def changes(self) -> Iterator[TableChanges]:
        """Decode the events."""
        part: list[RowEvent] = []
        size = 0
        for event in self.events:
            part.append(event)
            size += len(event.event)
            if size >= _DECODED_BYTES:
                yield decode_changes(self.table, part)
                part, size = [], 0
        if part:
            yield decode_changes(self.table, part)


def decode_changes(table: LoggedTable, events: Sequence[RowEvent]) -> TableChanges:
    """Decode row events."""
    rows: list[Row] = []
    old: list[Row] = []
    old_rows: list[int] = []
    operations: list[int] = []
    counts: list[int] = []
    for event in events:
        start = rows_start(event.event, event.kind)
        if not start.is_full:
            raise ConnectorError(
                f"a row of table {table.relation.name} in the binary log does not have all columns",
                hint="set binlog_row_image = FULL everywhere, and reset the source, which reads all tables again",
            )
        read = list(table.rows(start.data, start.at))
        if event.kind in UPDATES:
            old_rows += range(len(rows), len(rows) + len(read) // 2)
            old += read[::2]
            read = read[1::2]
        operation = UPDATE if event.kind in UPDATES else DELETE if event.kind in DELETES else INSERT
        rows += read
        counts.append(len(read))
        operations += [operation] * len(read)
    width = len(table.relation.columns)

    def spread(values: list[int]) -> Any:
        return np.repeat(np.array(values, np.int64), counts)

    return TableChanges(
        table.relation,
        cells_of_rows(rows, width),
        np.array(operations, np.uint8),
        cells_of_rows(old, width) if old else None,
        np.array(old_rows, np.int64),
        spread([event.time * 1_000_000 for event in events]),
        spread([event.transaction for event in events]),
        spread([event.end for event in events]),
    )
