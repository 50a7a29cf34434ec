"""Tables of MySQL and MariaDB."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any

from millstream.connectors.mysql_server import (
    MysqlAddress,
    error_code,
    error_message,
    import_pymysql,
    is_temporary,
)
from millstream.connectors.sql_tables.database import MARKERS, Dialect, RefusedRowsError, Row, explicit_transaction
from millstream.connectors.sql_tables.rows import ColumnKind
from millstream.connectors.sql_tables.table import SqlTable
from millstream.errors import ConnectorError, TargetUnavailableError
from millstream.secret import Secret

_MAX_STATEMENT_BYTES = 1 << 20
_MODE = "STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION,ERROR_FOR_DIVISION_BY_ZERO"
_KINDS: dict[str, ColumnKind] = {
    "tinyint(1)": "boolean",
    "bigint": "integer",
    "double": "number",
    "longtext": "text",
    "json": "json",
}
_REFUSED = frozenset({3140, 3819, 4025, 1366, 1367, 1292, 1059, 1060, 1117, 1118, 1166, 1300})
"""Codes of values that are not JSON, against a check, or not of the type, and of columns that a table cannot have."""


class MysqlTable(SqlTable):
    """Write records to a table of MySQL or MariaDB; the options are those of ``SqlTable``.

    The URL has no password; pass a ``Secret``. Connections to other hosts use TLS with a valid certificate, unless
    ``allow_plain_text``; ``ca_file`` adds an authority. Tables must be of InnoDB, since others have no transactions.

    >>> MysqlTable("mysql://app@db/shop", "totals", password=Secret.env("MYSQL_PASSWORD")).table
    'totals'
    """

    def __init__(
        self,
        url: str,
        table: str,
        *,
        password: Secret | None = None,
        ca_file: str | None = None,
        allow_plain_text: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(table, **options)
        self.url = url
        self._address = MysqlAddress(url, password, ca_file=ca_file, allow_plain_text=allow_plain_text)

    def connect(self) -> Mysql:
        """Connect to the server."""
        return Mysql(self._address)


class Mysql(Dialect):
    """A connection to MySQL or MariaDB."""

    quote = "`"
    longest_name = 64
    types: Mapping[ColumnKind, str] = {
        "boolean": "boolean",
        "integer": "bigint",
        "number": "double",
        "text": "longtext CHARACTER SET utf8mb4",
        "json": "json",
    }

    def __init__(self, address: MysqlAddress) -> None:
        self._errors: Any = import_pymysql().err
        with self._translated():
            self._connection: Any = address.connect(
                sql_mode=_MODE, init_command="SET SESSION default_storage_engine = InnoDB"
            )
        self._is_mariadb = "MariaDB" in self._connection.get_server_info()
        collation = "utf8mb4_nopad_bin" if self._is_mariadb else "utf8mb4_0900_bin"
        self.key_text = (
            f"varchar(255) CHARACTER SET utf8mb4 COLLATE {collation}"  # others take "a" and "A " for one key
        )
        packet = int(self._query("SELECT @@max_allowed_packet")[0][0])
        self._max_bytes = min(_MAX_STATEMENT_BYTES, packet // 2)

    def columns(self, table: str) -> dict[str, ColumnKind]:
        schema, _, name = table.rpartition(".")
        where = f"table_schema = {self._literal(schema) if schema else 'DATABASE()'} AND table_name = "
        where += self._literal(name)
        engines = self._query(f"SELECT engine FROM information_schema.tables WHERE {where}")
        if engines and engines[0][0] != "InnoDB":
            raise ConnectorError(
                f"table {table!r} is stored by {engines[0][0]}, which has no transactions",
                hint=f"ALTER TABLE {self.quoted(table)} ENGINE = InnoDB",
            )
        rows = self._query(
            "SELECT column_name, column_type, data_type FROM information_schema.columns "
            f"WHERE {where} ORDER BY ordinal_position"
        )
        kinds = {column: _KINDS.get(full, _KINDS.get(kind, "other")) for column, full, kind in rows}
        if self._is_mariadb:  # its JSON is text with a check
            constraints = where.replace("table_schema", "constraint_schema")
            checks = self._query(
                "SELECT constraint_name, check_clause FROM information_schema.check_constraints "
                f"WHERE {constraints} AND level = 'Column'"
            )
            kinds |= {column: "json" for column, clause in checks if clause.startswith("json_valid(")}
        return kinds

    def unique_keys(self, table: str) -> set[frozenset[str]]:
        schema, _, name = table.rpartition(".")
        rows = self._query(
            "SELECT index_name, column_name FROM information_schema.statistics WHERE non_unique = 0 "
            f"AND table_schema = {self._literal(schema) if schema else 'DATABASE()'} AND table_name = "
            f"{self._literal(name)}"
        )
        keys: dict[str, set[str]] = {}
        for index, column in rows:
            keys.setdefault(index, set()).add(column)
        return {frozenset(columns) for columns in keys.values()}

    def execute(self, statement: str) -> None:
        self._query(statement)

    def transaction(self) -> AbstractContextManager[None]:
        return explicit_transaction(self.execute)

    def marker(self, sink: str) -> tuple[str, int] | None:
        query = f"SELECT lineage, batch FROM {MARKERS} WHERE sink = {self._literal(sink)} FOR UPDATE"
        rows = self._query(query)
        return (str(rows[0][0]), int(rows[0][1])) if rows else None

    def set_marker(self, sink: str, lineage: str, batch: int) -> None:
        self.upsert(MARKERS, ["sink"], ["sink", "lineage", "batch"], [(sink, lineage, batch)])

    def upsert(self, table: str, keys: Sequence[str], columns: Sequence[str], rows: Sequence[Row]) -> None:
        self._insert(table, columns, rows, self.on_conflict(keys, columns))

    def insert(self, table: str, columns: Sequence[str], rows: Sequence[Row]) -> None:
        self._insert(table, columns, rows, "")

    def on_conflict(self, keys: Sequence[str], columns: Sequence[str]) -> str:
        """Return what replaces a row that has the same key."""
        others = [self.listed([column]) for column in columns if column not in keys] or [self.listed(keys[:1])]
        return " ON DUPLICATE KEY UPDATE " + ", ".join(f"{name} = VALUES({name})" for name in others)

    def delete(self, table: str, keys: Sequence[str], rows: Sequence[Row]) -> None:
        for values in self._value_lists(rows):
            self.execute(f"DELETE FROM {self.quoted(table)} WHERE ({self.listed(keys)}) IN ({values})")

    def creations(self) -> list[str]:
        """Return nothing: a table that is created cannot be rolled back."""
        return []

    def _insert(self, table: str, columns: Sequence[str], rows: Sequence[Row], suffix: str) -> None:
        start = f"INSERT INTO {self.quoted(table)} ({self.listed(columns)}) VALUES "
        for values in self._value_lists(rows):
            self.execute(f"{start}{values}{suffix}")

    def _value_lists(self, rows: Iterable[Row]) -> Iterator[str]:
        """Yield rows as lists of literals, each short enough for one statement."""
        literal, parts, size = self._literal, list[str](), 0
        for row in rows:
            part = f"({', '.join([literal(value) for value in row])})"
            if parts and size + 4 * len(part) > self._max_bytes:
                yield ", ".join(parts)
                parts, size = [], 0
            parts.append(part)
            size += 4 * len(part) if not part.isascii() else len(part)
        if parts:
            yield ", ".join(parts)

    def _literal(self, value: Any) -> str:
        try:
            return str(self._connection.escape(value))
        except self._errors.ProgrammingError as error:  # not a number, or infinite
            raise RefusedRowsError(str(error)) from error

    def _query(self, statement: str) -> list[tuple[Any, ...]]:
        with self._translated(), self._connection.cursor() as cursor:
            cursor.execute(statement)
            return list(cursor.fetchall())

    @contextmanager
    def _translated(self) -> Iterator[None]:
        errors = self._errors
        try:
            yield
        except (errors.DataError, errors.IntegrityError, UnicodeEncodeError) as error:
            raise RefusedRowsError(error_message(error)) from error
        except errors.Error as error:
            if error_code(error) in _REFUSED:
                raise RefusedRowsError(error_message(error)) from error
            if is_temporary(error):
                raise TargetUnavailableError(
                    f"MySQL cannot be used now: {error_message(error)}", hint="it is tried again"
                ) from error
            raise ConnectorError(
                f"MySQL refuses a statement: {error_message(error)}",
                hint="check the table, its columns and your rights",
            ) from error

    def close(self) -> None:
        with suppress(self._errors.Error):  # it is closed already
            self._connection.close()
