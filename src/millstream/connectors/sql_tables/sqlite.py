"""Tables of SQLite."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import ClassVar

from millstream.connectors.sql_tables.database import (
    Dialect,
    RefusedRowsError,
    Row,
    explicit_transaction,
)
from millstream.connectors.sql_tables.file_table import FileTable
from millstream.connectors.sql_tables.rows import ColumnKind
from millstream.errors import ConnectorError, TargetUnavailableError
from millstream.foundation.text import error_text

_KINDS: dict[str, ColumnKind] = {
    "BOOLEAN": "boolean",
    "BIGINT": "integer",
    "INTEGER": "integer",
    "REAL": "number",
    "TEXT": "text",
    "JSON": "json",
}


_UNIQUE_KEYS = """
SELECT '', name FROM pragma_table_info(:table, :schema) WHERE pk > 0
UNION ALL
SELECT list.name, info.name FROM pragma_index_list(:table, :schema) list, pragma_index_info(list.name, :schema) info
WHERE list."unique" AND NOT list.partial
"""


class SqliteTable(FileTable):
    """Write records to a table of a SQLite file; the options are those of ``SqlTable``.

    >>> from tempfile import mkdtemp
    >>> SqliteTable(mkdtemp() + "/shop.db", "orders").guarantee
    'exactly once'
    """

    def connect(self) -> Sqlite:
        """Open the file."""
        return Sqlite(self.path)


class Sqlite(Dialect):
    """A connection to a SQLite file."""

    types: Mapping[ColumnKind, str] = {kind: name for name, kind in _KINDS.items()}
    key_text: ClassVar[str] = "TEXT"

    def __init__(self, path: str | Path) -> None:
        with _translated():
            self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=10)
            self._connection.execute("PRAGMA synchronous = FULL")

    def columns(self, table: str) -> dict[str, ColumnKind]:
        schema, _, name = table.rpartition(".")
        query = "SELECT name, type FROM pragma_table_info(?, ?)"
        with _translated():
            rows = self._connection.execute(query, (name, schema or None)).fetchall()
        return {column: _KINDS.get(kind.upper(), "other") for column, kind in rows}

    def unique_keys(self, table: str) -> set[frozenset[str]]:
        schema, _, name = table.rpartition(".")
        keys: dict[str, set[str]] = {}
        with _translated():
            for index, column in self._connection.execute(_UNIQUE_KEYS, {"table": name, "schema": schema or None}):
                keys.setdefault(index, set()).add(column)
        return {frozenset(columns) for columns in keys.values()}

    def execute(self, statement: str) -> None:
        with _translated():
            self._connection.execute(statement)

    def transaction(self) -> AbstractContextManager[None]:
        return explicit_transaction(self.execute)

    def marker(self, sink: str) -> tuple[str, int] | None:
        with _translated():
            row: tuple[str, int] | None = self._connection.execute(self.marker_query(), (sink,)).fetchone()
        return row

    def set_marker(self, sink: str, lineage: str, batch: int) -> None:
        self._run(self.marker_statement(), [(sink, lineage, batch)])

    def upsert(self, table: str, keys: Sequence[str], columns: Sequence[str], rows: Sequence[Row]) -> None:
        self._run(self.insert_statement(table, columns) + self.on_conflict(keys, columns), rows)

    def insert(self, table: str, columns: Sequence[str], rows: Sequence[Row]) -> None:
        self._run(self.insert_statement(table, columns), rows)

    def delete(self, table: str, keys: Sequence[str], rows: Sequence[Row]) -> None:
        self._run(self.delete_statement(table, keys), rows)

    def _run(self, statement: str, rows: Sequence[Row]) -> None:
        with _translated():
            self._connection.executemany(statement, rows)

    def close(self) -> None:
        self._connection.close()


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except (sqlite3.IntegrityError, sqlite3.DataError, OverflowError, UnicodeEncodeError) as error:
        raise RefusedRowsError(error_text(error)) from error
    except sqlite3.OperationalError as error:
        if any(reason in str(error) for reason in ("locked", "busy", "unable to open", "disk")):
            raise TargetUnavailableError(f"SQLite cannot be used now: {error}", hint="it is tried again") from error
        raise ConnectorError(f"SQLite refuses a statement: {error}", hint="check the table and its columns") from error
    except sqlite3.Error as error:
        raise ConnectorError(f"SQLite has failed: {error}", hint="check the file") from error
