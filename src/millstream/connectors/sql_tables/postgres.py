"""Tables of PostgreSQL."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from millstream.connectors.extras import missing_package
from millstream.connectors.postgres_url import checked_postgres_url
from millstream.connectors.sql_tables.database import Dialect, RefusedRowsError, Row
from millstream.connectors.sql_tables.rows import ColumnKind
from millstream.connectors.sql_tables.table import SqlTable
from millstream.errors import ConnectorError, TargetUnavailableError
from millstream.foundation.text import error_text
from millstream.secret import Secret

_FEW_ROWS = 20  # below this, single statements are faster than COPY into a temporary table
_KINDS: dict[str, ColumnKind] = {
    "boolean": "boolean",
    "bigint": "integer",
    "double precision": "number",
    "text": "text",
    "jsonb": "json",
}


class PostgresTable(SqlTable):
    """Write records to a table of PostgreSQL; the options are those of ``SqlTable``.

    The URL has no password; pass a ``Secret``, or use what libpq reads (``PGPASSWORD``, ``~/.pgpass``). Connections to
    other hosts use TLS, unless ``allow_plain_text``.

    >>> PostgresTable("postgresql://app@db/bi", "totals", password=Secret.env("PG_PASSWORD")).table
    'totals'
    """

    def __init__(
        self,
        url: str,
        table: str,
        *,
        password: Secret | None = None,
        allow_plain_text: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(table, **options)
        self.url = checked_postgres_url(url, allow_plain_text=allow_plain_text)
        self.password = password

    def connect(self) -> Postgres:
        """Connect to the server."""
        return Postgres(self.url, self.password)


class Postgres(Dialect):
    """A connection to PostgreSQL."""

    placeholder = "\0"  # no name contains it; psycopg's own could be part of a name
    longest_name = 63  # the server cuts longer ones
    has_case = True
    reserved_names = frozenset({"tableoid", "xmin", "cmin", "xmax", "cmax", "ctid"})
    types: Mapping[ColumnKind, str] = {kind: name for name, kind in _KINDS.items()}
    key_text = "text"

    def __init__(self, url: str, password: Secret | None) -> None:
        try:
            import psycopg
        except ImportError as error:
            raise missing_package("psycopg", "postgres") from error
        self._psycopg: Any = psycopg
        secret: dict[str, Any] = {} if password is None else {"password": password.reveal()}
        with self._translated():
            self._connection: Any = psycopg.connect(url, autocommit=True, connect_timeout=10, **secret)

    def columns(self, table: str) -> dict[str, ColumnKind]:
        query = (
            "SELECT attname, format_type(atttypid, NULL) FROM pg_attribute "
            "WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped ORDER BY attnum"
        )
        with self._translated():
            rows: list[tuple[str, str]] = self._connection.execute(query, (self.quoted(table),)).fetchall()
        return {name: _KINDS.get(kind, "other") for name, kind in rows}

    def unique_keys(self, table: str) -> set[frozenset[str]]:
        query = (
            "SELECT array_agg(a.attname::text) FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid "
            "AND a.attnum = ANY ((i.indkey::int2[])[0 : i.indnkeyatts - 1]) WHERE i.indrelid = to_regclass(%s) "
            "AND i.indisunique AND i.indpred IS NULL AND i.indexprs IS NULL GROUP BY i.indexrelid"
        )
        with self._translated():
            rows: list[tuple[list[str]]] = self._connection.execute(query, (self.quoted(table),)).fetchall()
        return {frozenset(columns) for (columns,) in rows}

    def execute(self, statement: str) -> None:
        with self._translated():
            self._connection.execute(statement)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        with self._translated(), self._connection.transaction():
            yield

    def marker(self, sink: str) -> tuple[str, int] | None:
        row: tuple[str, int] | None = self._connection.execute(
            _bound(self.marker_query(" FOR UPDATE")), (sink,)
        ).fetchone()
        return row

    def set_marker(self, sink: str, lineage: str, batch: int) -> None:
        self._connection.execute(_bound(self.marker_statement()), (sink, lineage, batch))

    def upsert(self, table: str, keys: Sequence[str], columns: Sequence[str], rows: Sequence[Row]) -> None:
        suffix = self.on_conflict(keys, columns)
        if len(rows) < _FEW_ROWS:
            with self._connection.cursor() as cursor:
                cursor.executemany(_bound(self.insert_statement(table, columns) + suffix), rows)
            return
        temporary, listed = self._copied(table, columns, rows), self.listed(columns)
        self._connection.execute(
            f"INSERT INTO {self.quoted(table)} ({listed}) SELECT {listed} FROM {temporary}{suffix}"
        )

    def insert(self, table: str, columns: Sequence[str], rows: Sequence[Row]) -> None:
        self._copy(self.quoted(table), columns, rows)

    def delete(self, table: str, keys: Sequence[str], rows: Sequence[Row]) -> None:
        with self._connection.cursor() as cursor:
            cursor.executemany(_bound(self.delete_statement(table, keys)), rows)

    def _copied(self, table: str, columns: Sequence[str], rows: Sequence[Row]) -> str:
        """Copy rows into a temporary table with the columns of a table, and return its name."""
        name = "pg_temp.millstream_rows"
        self._connection.execute(
            "CREATE TEMPORARY TABLE millstream_rows ON COMMIT DROP AS "
            f"SELECT {self.listed(columns)} FROM {self.quoted(table)} WITH NO DATA"
        )
        self._copy(name, columns, rows)
        return name

    def _copy(self, table: str, columns: Sequence[str], rows: Sequence[Row]) -> None:
        statement = f"COPY {table} ({self.listed(columns)}) FROM STDIN"
        with self._connection.cursor() as cursor, cursor.copy(statement) as copy:
            copy.write(_copy_text(rows))

    @contextmanager
    def _translated(self) -> Iterator[None]:
        errors = self._psycopg
        try:
            yield
        except (
            errors.DataError,
            errors.IntegrityError,
            errors.errors.ProgramLimitExceeded,
            UnicodeEncodeError,
        ) as error:
            raise RefusedRowsError(_line(error)) from error
        except (errors.OperationalError, errors.InterfaceError) as error:
            raise TargetUnavailableError(
                f"PostgreSQL cannot be used now: {_line(error)}", hint="it is tried again"
            ) from error
        except errors.Error as error:
            raise ConnectorError(
                f"PostgreSQL refuses a statement: {_line(error)}", hint="check the table, its columns and your rights"
            ) from error

    def close(self) -> None:
        self._connection.close()


def _line(error: Exception) -> str:
    return error_text(error).strip().partition("\n")[0]


def _bound(statement: str) -> str:
    """Return a statement with psycopg's placeholders; percent signs are those of names."""
    return statement.replace("%", "%%").replace(Postgres.placeholder, "%s")


_SPECIAL = re.compile(r"[\\\t\n\r]")
_ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})


def _copy_text(rows: Sequence[Row]) -> str:
    """Return rows in the text format of COPY; columns of one type are written by loops in C."""
    columns = [_copy_column(column) for column in zip(*rows, strict=True)]
    return "\n".join(map("\t".join, zip(*columns, strict=True))) + "\n"


def _copy_column(values: Sequence[Any]) -> Sequence[str]:
    types = {*map(type, values)}
    if types == {str} and not _SPECIAL.search("".join(values)):
        return values
    if types in ({int}, {float}):
        return [*map(str, values)]
    return [*map(_copy_field, values)]


def _copy_field(value: Any) -> str:
    if value is None:
        return "\\N"
    if isinstance(value, str):  # also a subclass, whose text is data as well
        return value if value.isalnum() else value.translate(_ESCAPES)
    return "t" if value is True else "f" if value is False else str(value)
