"""Chunks of a table, each read in a snapshot whose place in the binary log is known exactly.

A chunk is the state of its rows at that place. It is written once the stream is there, after all changes before it and
before all changes behind it, so that no row has to be compared.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from millstream.connectors.change_data.cells import Cells, cells_of_rows
from millstream.connectors.change_data.relation import ReplicatedTable
from millstream.connectors.change_data.snapshot_progress import SnapshotProgress
from millstream.connectors.change_data.texts import RAW_BYTES
from millstream.connectors.mysql_cdc.column_types import DeclaredColumn
from millstream.connectors.mysql_cdc.connection import MysqlSession, quoted, text_literal
from millstream.connectors.mysql_cdc.position import LogLocation, log_location
from millstream.connectors.mysql_cdc.server import DeclaredTable, Server
from millstream.connectors.mysql_server import MysqlAddress
from millstream.errors import ConnectorError

_NUMERIC_TYPES = (20, 1700)
_NUMBER = re.compile(r"-?\d+(\.\d+)?")
_LOCK_SECONDS = 2


class PlacedChunk(NamedTuple):
    """Rows of a table as they were at a place of the log."""

    relation: ReplicatedTable
    cells: Cells
    file: str
    offset: int
    seconds: int
    """When it was read, since 1970."""
    last_key: tuple[str, ...]
    is_last: bool

    @property
    def location(self) -> LogLocation:
        return log_location(self.file, self.offset)


class PlacedChunkReader:
    """Reads chunks on connections of its own.

    MariaDB says which place of the log a snapshot has. For MySQL the table is locked for writers for a moment, while
    a snapshot is made: with the lock, all transactions that wrote to the table have ended.
    """

    def __init__(self, address: MysqlAddress, rows: int, *, locks: bool | None = None) -> None:
        self._statements = MysqlSession(address)
        self._server = Server(self._statements)
        self._locking: MysqlSession | None = None
        try:
            self._statements.rows("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            if locks if locks is not None else not self._server.is_mariadb:
                self._locking = MysqlSession(address)
                self._locking.rows(f"SET SESSION lock_wait_timeout = {_LOCK_SECONDS}")
        except BaseException:
            self.close()
            raise
        self._limit = rows

    def read(self, progress: SnapshotProgress) -> PlacedChunk:
        """Read the next rows of the first table."""
        table = progress.tables[0]
        try:
            file, offset = self._begin(table)
            layout = self._server.layout(table)
            if layout is None:
                raise ConnectorError(f"table {table} does not exist any longer", hint="remove it from tables")
            rows = self._statements.rows(self._statement(table, layout, progress.after))
            [(seconds,)] = self._statements.rows("SELECT UNIX_TIMESTAMP() DIV 1")
        finally:
            self._statements.rows("ROLLBACK")
        changes = [(index, column.change) for index, column in enumerate(layout.columns) if column.change is not None]
        texts = [list(row) for row in rows]
        for index, change in changes:
            for row in texts:
                value = row[index]
                if value is not None:
                    row[index] = change(value)
        relation = layout.relation
        last = tuple(_key_text(column, texts[-1][index]) for index, column in _keys(layout)) if texts else ()
        cells = cells_of_rows(texts, len(relation.columns))
        return PlacedChunk(relation, cells, file, offset, int(seconds or 0), last, len(texts) < self._limit)

    def _begin(self, table: str) -> tuple[str, int]:
        """Start a transaction with a snapshot, and return its place in the log."""
        begin = "START TRANSACTION WITH CONSISTENT SNAPSHOT"
        if self._locking is None:
            self._statements.rows(begin)
            rows = self._statements.named_rows("SHOW STATUS LIKE 'binlog_snapshot_%'")
            status = {row["variable_name"].lower(): row["value"] for row in rows}
            file, offset = status.get("binlog_snapshot_file"), status.get("binlog_snapshot_position")
            if not file or not offset:
                raise ConnectorError("the server does not say where a snapshot is", hint="MariaDB 10.5 is required")
            return file, int(offset)
        self._locking.rows(f"LOCK TABLES {quoted(*table.split('.', 1))} READ")
        try:
            self._statements.rows(begin)
            return Server(self._locking).end_of_log()
        finally:
            self._locking.rows("UNLOCK TABLES")

    def _statement(self, table: str, layout: DeclaredTable, after: tuple[str, ...] | None) -> str:
        names = [quoted(column.column.name) for column in layout.keys]
        where = ""
        if after is not None:
            values = [_literal(column, text) for column, text in zip(layout.keys, after, strict=True)]
            where = f" WHERE {_beyond(names, values)}"
        selected = ", ".join(column.expression for column in layout.columns)
        source = quoted(*table.split(".", 1))
        return f"SELECT {selected} FROM {source}{where} ORDER BY {', '.join(names)} LIMIT {self._limit}"

    def close(self) -> None:
        self._statements.close()
        if self._locking is not None:
            self._locking.close()


def _keys(layout: DeclaredTable) -> list[tuple[int, DeclaredColumn]]:
    return [(index, column) for index, column in enumerate(layout.columns) if column.column.is_key]


def _key_text(column: DeclaredColumn, value: bytes | None) -> str:
    assert value is not None
    return value.hex() if column.column.type == RAW_BYTES else value.decode()


def _literal(column: DeclaredColumn, text: str) -> str:
    if column.column.type == RAW_BYTES:
        return f"x'{bytes.fromhex(text).hex()}'"
    if column.column.type in _NUMERIC_TYPES:
        if not _NUMBER.fullmatch(text):
            raise ConnectorError(f"{text!r} is not a number", hint="set a position that a run has shown")
        return text
    return text_literal(text.removesuffix("+00") if column.declared == "timestamp" else text)


def _beyond(names: list[str], values: list[str]) -> str:
    """Return the condition for rows after a key, in a form for which the server uses the index.

    >>> _beyond(["a", "b"], ["1", "2"])
    'a >= 1 AND (a > 1 OR (a = 1 AND (b > 2)))'
    """
    condition = f"{names[-1]} > {values[-1]}"
    for name, value in zip(reversed(names[:-1]), reversed(values[:-1]), strict=True):
        condition = f"{name} > {value} OR ({name} = {value} AND ({condition}))"
    return condition if len(names) == 1 else f"{names[0]} >= {values[0]} AND ({condition})"
