"""Tables of DuckDB."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa

from millstream.connectors.extras import missing_package
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
    "DOUBLE": "number",
    "VARCHAR": "text",
    "JSON": "json",
}
_ROWS = "millstream_rows"
"""What the rows of a batch are called while they are inserted."""


class DuckdbTable(FileTable):
    """Write records to a table of a DuckDB file; the options are those of ``SqlTable``.

    Only one process can have the file open for writing; others read it while this one is paused.

    >>> DuckdbTable("shop.duckdb", "orders", mode="append").mode
    'append'
    """

    def connect(self) -> Duckdb:
        """Open the file."""
        return Duckdb(self.path)


class Duckdb(Dialect):
    """A connection to a DuckDB file."""

    types: Mapping[ColumnKind, str] = {kind: name for name, kind in _KINDS.items() if kind != "json"} | {
        "json": "VARCHAR"  # the JSON type needs an extension that may not be installed
    }
    key_text = "VARCHAR"

    def __init__(self, path: str | Path) -> None:
        try:
            import duckdb
        except ImportError as error:
            raise missing_package("duckdb", "duckdb") from error
        self._duckdb: Any = duckdb
        with self._translated():
            self._connection: Any = duckdb.connect(str(path))

    def columns(self, table: str) -> dict[str, ColumnKind]:
        rows = self._catalog_rows("column_name, data_type", "duckdb_columns()", table)
        return {name: _KINDS.get(kind, "other") for name, kind in rows}

    def unique_keys(self, table: str) -> set[frozenset[str]]:
        rows = self._catalog_rows("constraint_type, constraint_column_names", "duckdb_constraints()", table)
        return {frozenset(columns) for kind, columns in rows if kind in ("PRIMARY KEY", "UNIQUE")}

    def _catalog_rows(self, columns: str, function: str, table: str) -> list[tuple[Any, Any]]:
        """Query the catalog about a table, whose name ignores case as DuckDB does."""
        schema, _, name = table.rpartition(".")
        query = (
            f"SELECT {columns} FROM {function} WHERE database_name = current_database() "
            "AND lower(schema_name) = lower(coalesce(?, current_schema())) AND lower(table_name) = lower(?)"
        )
        with self._translated():
            rows: list[tuple[Any, Any]] = self._connection.execute(query, [schema or None, name]).fetchall()
        return rows

    def execute(self, statement: str) -> None:
        with self._translated():
            self._connection.execute(statement)

    def transaction(self) -> AbstractContextManager[None]:
        return explicit_transaction(self.execute)

    def marker(self, sink: str) -> tuple[str, int] | None:
        with self._translated():
            row: tuple[str, int] | None = self._connection.execute(self.marker_query(), [sink]).fetchone()
        return row

    def set_marker(self, sink: str, lineage: str, batch: int) -> None:
        with self._translated():
            self._connection.execute(self.marker_statement(), [sink, lineage, batch])

    def upsert(self, table: str, keys: Sequence[str], columns: Sequence[str], rows: Sequence[Row]) -> None:
        self._insert(table, columns, rows, self.on_conflict(keys, columns))

    def insert(self, table: str, columns: Sequence[str], rows: Sequence[Row]) -> None:
        self._insert(table, columns, rows, "")

    def _insert(self, table: str, columns: Sequence[str], rows: Sequence[Row], suffix: str) -> None:
        """Insert rows from an Arrow table, since DuckDB is slow row by row."""
        listed = self.listed(columns)
        with self._registered(columns, rows):
            self._connection.execute(
                f"INSERT INTO {self.quoted(table)} ({listed}) SELECT {listed} FROM {_ROWS}{suffix}"
            )

    def delete(self, table: str, keys: Sequence[str], rows: Sequence[Row]) -> None:
        condition = " AND ".join(f"target.{self.listed([key])} = {_ROWS}.{self.listed([key])}" for key in keys)
        with self._registered(keys, rows):
            self._connection.execute(f"DELETE FROM {self.quoted(table)} AS target USING {_ROWS} WHERE {condition}")

    @contextmanager
    def _registered(self, columns: Sequence[str], rows: Sequence[Row]) -> Iterator[None]:
        """Make rows a table of this connection."""
        with self._translated():
            arrays = [pa.array(_alike([row[number] for row in rows])) for number in range(len(columns))]
            self._connection.register(_ROWS, pa.Table.from_arrays(arrays, names=list(columns)))
            try:
                yield
            finally:
                with suppress(self._duckdb.Error):  # a transaction that has failed; the next rows replace these
                    self._connection.unregister(_ROWS)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        errors = self._duckdb
        try:
            yield
        except (
            *(errors.ConstraintException, errors.ConversionException, errors.OutOfRangeException),
            *(pa.ArrowException, UnicodeEncodeError),
        ) as error:
            raise RefusedRowsError(error_text(error)) from error
        except errors.IOException as error:
            raise TargetUnavailableError(
                f"DuckDB cannot use its file now: {error}", hint="it is tried again"
            ) from error
        except errors.Error as error:
            raise ConnectorError(
                f"DuckDB refuses a statement: {error}", hint="check the table and its columns"
            ) from error

    def close(self) -> None:
        self._connection.close()


def _alike(values: list[Any]) -> list[Any]:
    """Return values of one type, as Arrow needs them: text if they are of several, which DuckDB converts back."""
    kinds = {type(value) for value in values if value is not None}
    if len(kinds) <= 1:
        return values
    if kinds <= {int, float}:
        return [None if value is None else float(value) for value in values]
    return [value if value is None or isinstance(value, str) else str(value) for value in values]
