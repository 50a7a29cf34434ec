"""Snapshots by chunks of the key, while the stream goes on (DBLog), checked by what each chunk can see.

A chunk is read together with the server's snapshot. Transactions that were streamed before must all be visible in it,
or the chunk is read again. Until the stream has passed the end of the log at the time of the reading, rows that are
changed by transactions that the chunk does not see are dropped from it. The rest is emitted.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from millstream.connectors.change_data.cells import Cells
from millstream.connectors.change_data.changes import StoredRow, TableChanges, changes_of_cells, key_column
from millstream.connectors.change_data.json_rows import JsonColumns
from millstream.connectors.change_data.relation import READ, ReplicatedTable
from millstream.connectors.change_data.snapshot_progress import SnapshotProgress
from millstream.connectors.postgres_cdc.catalog import DatabaseCatalog
from millstream.connectors.postgres_cdc.connection import Address, import_psycopg, translated_errors
from millstream.connectors.postgres_cdc.position import parse_lsn
from millstream.connectors.postgres_cdc.tuples import cells_of_copy
from millstream.connectors.postgres_cdc.visibility import SNAPSHOT_QUERY, VisibleTransactions, parse_snapshot

_PAGE_BYTES = 8192
_MAX_PAGE_HEADER = 40
_FACTS = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::int8, pg_current_wal_insert_lsn()::text"


class SnapshotChunk:
    """Rows of a table that are emitted once the stream has passed ``high``."""

    def __init__(
        self, relation: ReplicatedTable, cells: Cells, snapshot: VisibleTransactions, time: int, high: int, limit: int
    ) -> None:
        self.relation = relation
        self.snapshot = snapshot
        self.high = high
        self.is_last = cells.row_count < limit
        self.count = cells.row_count
        self._cells = cells
        self._time = time
        keys = key_column(relation, JsonColumns(cells), cells).to_pylist() if cells.row_count else []
        self._rows: dict[bytes, int] = {key: row for row, key in enumerate(keys)}
        self._kept = np.ones(cells.row_count, bool)

    def drop(self, keys: Iterable[bytes]) -> int:
        """Drop rows that newer transactions have changed; return how many."""
        rows = [row for row in map(self._rows.get, keys) if row is not None]
        before = int(self._kept.sum())
        self._kept[rows] = False
        return before - int(self._kept.sum())

    def drop_all(self) -> None:
        self._kept[:] = False

    def row(self, key: bytes) -> StoredRow | None:
        """Return a row as it was read, dropped or not."""
        row = self._rows.get(key)
        if row is None:
            return None
        return dict(zip((column.name for column in self.relation.columns), self._cells.row(row), strict=True))

    def changes(self) -> TableChanges:
        """Return the rows that are left."""
        kept = self._cells.take(np.flatnonzero(self._kept))
        return changes_of_cells(self.relation, kept, READ, time=self._time, lsn=self.high)

    @property
    def last_key(self) -> tuple[str, ...]:
        row = self._cells.row(self.count - 1)
        return tuple((row[index] or b"").decode() for index in self.relation.key_indexes)


class ChunkReader:
    """Reads chunks on a connection of its own."""

    def __init__(self, address: Address, publication: str, rows: int) -> None:
        self._connection: Any = address.connect()
        self.catalog = DatabaseCatalog(self._connection)
        self._publication = publication
        self._limit = rows

    def visible(self) -> VisibleTransactions:
        """Return what a new snapshot sees."""
        return parse_snapshot(self.catalog.rows(SNAPSHOT_QUERY)[0][0])

    def end_of_log(self) -> int:
        """Return up to where the log is written now."""
        return _reachable(parse_lsn(self.catalog.rows("SELECT pg_current_wal_insert_lsn()::text")[0][0]))

    def read(self, progress: SnapshotProgress) -> SnapshotChunk | None:
        """Read the next rows of the first table; None if the table does not exist any longer."""
        table = progress.tables[0]
        with translated_errors(), self._connection.transaction():
            self._connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            snapshot = self.visible()
            relation = self._relation(table)
            if relation is None:
                return None
            with self._connection.cursor().copy(self._statement(relation, progress.after)) as copy:
                data = b"".join(map(bytes, copy))
            time, high = self.catalog.rows(_FACTS)[0]
        cells = cells_of_copy(data, len(relation.columns))
        return SnapshotChunk(relation, cells, snapshot, time, _reachable(parse_lsn(high)), self._limit)

    def _relation(self, table: str) -> ReplicatedTable | None:
        """Return the table with the columns that are published."""
        relation = self.catalog.relation(table)
        published = (self.catalog.published_tables(self._publication) or {}).get(table)
        self._filter = (published or {}).get("rowfilter")
        names = (published or {}).get("attnames")
        if relation is None or names is None:
            return relation
        columns = tuple(column for column in relation.columns if column.name in names)
        return ReplicatedTable(relation.schema, relation.table, columns, relation.oid, relation.identity)

    def _statement(self, relation: ReplicatedTable, after: tuple[str, ...] | None) -> Any:
        sql = import_psycopg().sql
        keys = [sql.Identifier(relation.columns[index].name) for index in relation.key_indexes]
        conditions = []
        if after is not None:
            conditions.append(sql.SQL("({}) > ({})").format(_listed(keys), _listed(map(sql.Literal, after))))
        if self._filter:
            conditions.append(sql.SQL("(" + self._filter + ")"))  # the server's own text
        return sql.SQL("COPY (SELECT {} FROM {}{} ORDER BY {} LIMIT {}) TO STDOUT").format(
            _listed(sql.Identifier(column.name) for column in relation.columns),
            sql.Identifier(relation.schema, relation.table),
            sql.SQL(" WHERE {}").format(sql.SQL(" AND ").join(conditions)) if conditions else sql.SQL(""),
            _listed(keys),
            sql.Literal(self._limit),
        )

    def close(self) -> None:
        self._connection.close()


def _listed(items: Iterable[Any]) -> Any:
    return import_psycopg().sql.SQL(", ").join(list(items))


def _reachable(lsn: int) -> int:
    """Return the end of the last record before ``lsn``, which may be behind the header of an empty page."""
    within = lsn % _PAGE_BYTES
    return lsn - within if within <= _MAX_PAGE_HEADER else lsn
