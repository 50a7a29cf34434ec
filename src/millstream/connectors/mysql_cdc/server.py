"""What the server says about itself: its log, its settings and its tables."""

from __future__ import annotations

from collections.abc import Sequence

from millstream.connectors.change_data.relation import FULL_IDENTITY, ReplicatedTable
from millstream.connectors.mysql_cdc.column_types import UNSORTED, DeclaredColumn, declared_column, is_known
from millstream.connectors.mysql_cdc.connection import MysqlSession, text_literal
from millstream.errors import ConnectorError

START_OVER = "reset the source, which reads all tables again"
_COLUMNS = (
    "SELECT column_name AS column_name, data_type AS data_type, column_key AS column_key, numeric_scale AS "
    "numeric_scale, numeric_precision AS numeric_precision, datetime_precision AS datetime_precision, extra AS extra "
    "FROM information_schema.columns WHERE table_schema = {} AND table_name = {} ORDER BY ordinal_position"
)
_REQUIRED = (
    ("log_bin", ("ON", "1"), "ON", "and restart the server"),
    ("binlog_format", ("ROW",), "ROW", "for all sessions"),
    ("binlog_row_image", ("FULL",), "FULL", "for all sessions"),
    ("binlog_row_metadata", ("FULL",), "FULL", "since the log has no names of columns otherwise"),
)
_FORBIDDEN = (
    ("binlog_row_value_options", ("",), "''"),
    ("binlog_transaction_compression", ("OFF", "0"), "OFF"),
)


class DeclaredTable:
    """A table of the catalog."""

    def __init__(self, name: str, columns: Sequence[DeclaredColumn]) -> None:
        schema, _, table = name.partition(".")
        self.columns = columns
        self.relation = ReplicatedTable(
            schema, table, tuple(column.column for column in columns), identity=FULL_IDENTITY
        )

    @property
    def keys(self) -> list[DeclaredColumn]:
        return [column for column in self.columns if column.column.is_key]


class Server:
    """Reads what is needed by statements."""

    def __init__(self, statements: MysqlSession) -> None:
        self.statements = statements
        self.is_mariadb = statements.is_mariadb

    def identity(self) -> str:
        """Return what tells this server from others."""
        for name in ("server_uuid", "server_uid"):
            value = self.statements.variable(name)
            if value:
                return value
        return f"server_id {self.statements.variable('server_id')}"

    def end_of_log(self) -> tuple[str, int]:
        """Return where the next transaction will be written."""
        command = "SHOW MASTER STATUS" if self.is_mariadb else "SHOW BINARY LOG STATUS"
        rows = self.statements.rows(command)
        if not rows:
            raise ConnectorError("the server writes no binary log", hint="set log_bin = ON and restart the server")
        file, offset = rows[0][:2]
        return (file or b"").decode(), int(offset or 0)

    def logs(self) -> dict[str, int]:
        """Return the files of the binary log with their sizes."""
        rows = self.statements.rows("SHOW BINARY LOGS")
        return {(row[0] or b"").decode(): int(row[1] or 0) for row in rows}

    def has_gtid(self, gtid: str, file: str, offset: int) -> bool:
        """Return whether a transaction is the last before a place of the log, or at least part of the history."""
        if self.is_mariadb:
            query = f"SELECT BINLOG_GTID_POS({text_literal(file)}, {offset})"
            ids = (self.statements.rows(query)[0][0] or b"").decode()
            return gtid in ids.split(",")
        return self.statements.rows(f"SELECT GTID_SUBSET({text_literal(gtid)}, @@GLOBAL.gtid_executed)")[0][0] == b"1"

    def layout(self, table: str) -> DeclaredTable | None:
        """Return a table with its columns; None if it does not exist."""
        schema, _, name = table.partition(".")
        rows = self.statements.named_rows(_COLUMNS.format(text_literal(schema), text_literal(name)))
        return DeclaredTable(table, [declared_column(row) for row in rows]) if rows else None

    def problems(self, tables: Sequence[str], *, reads_rows: bool) -> list[str]:
        """Return what is missing, a sentence each."""
        problems = []
        for name, allowed, wanted, remark in _REQUIRED:
            value = self.statements.variable(name)
            if value is None:
                problems.append(f"the server has no setting {name}; MySQL 8.0.14 or MariaDB 10.5 is required")
            elif value.upper() not in allowed:
                problems.append(f"{name} is {value!r}; set it to {wanted}, {remark}")
        for name, allowed, wanted in _FORBIDDEN:
            value = self.statements.variable(name)
            if value is not None and value.upper() not in allowed:
                problems.append(f"{name} is {value!r}, which is not supported; set it to {wanted}")
        for table in tables:
            problems += self.table_problems(table, reads_rows=reads_rows)
        return problems

    def table_problems(self, table: str, *, reads_rows: bool) -> list[str]:
        """Return why a table cannot be read."""
        layout = self.layout(table)
        if layout is None:
            return [f"table {table} does not exist, or the user may not read it; correct its name or grant SELECT"]
        problems = []
        if not layout.keys:
            problems.append(f"table {table} has no primary key; add one")
        schema, _, name = table.partition(".")
        engines = self.statements.rows(
            "SELECT engine FROM information_schema.tables "
            f"WHERE table_schema = {text_literal(schema)} AND table_name = {text_literal(name)}"
        )
        engine = (engines[0][0] or b"").decode() if engines else ""
        if engine != "InnoDB":
            problems.append(f"table {table} is stored by {engine or 'a view'}, which has no snapshots; use InnoDB")
        for column in layout.columns:
            name = column.column.name
            if not is_known(column.declared):
                problems.append(f"column {name!r} of {table} has the type {column.declared}; change it")
            if reads_rows and column.column.is_key and column.declared in UNSORTED:
                problems.append(
                    f"key column {name!r} of {table} is of type {column.declared}, by which a snapshot cannot be "
                    "read in order; set snapshot='never'"
                )
        return problems


def refuse(problems: Sequence[str]) -> None:
    """Raise an error for the first problem."""
    if problems:
        message, _, hint = problems[0].partition("; ")
        raise ConnectorError(message, hint=hint or None)
