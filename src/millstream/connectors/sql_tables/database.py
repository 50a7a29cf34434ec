"""What a database does for a table sink, so that the sink itself is the same for all of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any, Protocol, TypeAlias

from millstream.connectors.sql_tables.rows import ColumnKind
from millstream.errors import ConnectorError

MARKERS = "millstream_sinks"
Row: TypeAlias = tuple[Any, ...]


class RefusedRowsError(Exception):
    """The database refuses a value: too long, out of range, against a constraint."""


class Database(Protocol):
    """A connection. Its methods raise ``TargetUnavailableError``, ``ConnectorError`` or ``RefusedRowsError``."""

    @property
    def types(self) -> Mapping[ColumnKind, str]:
        """The type of a column by what it holds."""

    @property
    def key_text(self) -> str:
        """The type of a text column that is part of a key."""

    @property
    def longest_name(self) -> int:
        """How many bytes the name of a column may have."""

    @property
    def has_case(self) -> bool:
        """Whether names that differ in case only are different."""

    @property
    def reserved_names(self) -> frozenset[str]:
        """Columns that each table has already."""

    def columns(self, table: str) -> dict[str, ColumnKind]:
        """Return the columns of a table, empty if it does not exist."""

    def unique_keys(self, table: str) -> set[frozenset[str]]:
        """Return the columns of the primary key and of each unique constraint."""

    def execute(self, statement: str) -> None:
        """Run a statement without results, outside a transaction."""

    def transaction(self) -> AbstractContextManager[None]:
        """Begin a transaction, which commits at the end of the block and is rolled back if the block raises."""

    def marker(self, sink: str) -> tuple[str, int] | None:
        """Return lineage and number of the last batch, and lock them until the transaction ends."""

    def set_marker(self, sink: str, lineage: str, batch: int) -> None: ...

    def upsert(self, table: str, keys: Sequence[str], columns: Sequence[str], rows: Sequence[Row]) -> None:
        """Insert rows, or replace those that have the same key."""

    def insert(self, table: str, columns: Sequence[str], rows: Sequence[Row]) -> None: ...

    def delete(self, table: str, keys: Sequence[str], rows: Sequence[Row]) -> None:
        """Delete the rows with these keys."""

    def quoted(self, name: str) -> str:
        """Return the name of a table, with or without a schema, as an identifier."""

    def listed(self, names: Sequence[str]) -> str:
        """Return names of columns as identifiers."""

    def creations(self) -> list[str]:
        """Return statements that try whether tables can be created."""

    def trials(self, table: str, keys: Sequence[str], columns: Iterable[str]) -> list[str]:
        """Return statements that try to write to a table, without any row."""

    def close(self) -> None: ...


class Dialect:
    """Statements that most databases understand: names are quoted, values are bound."""

    quote = '"'
    longest_name = 1_000
    has_case = False
    reserved_names: frozenset[str] = frozenset()
    placeholder = "?"

    def quoted(self, name: str) -> str:
        """Return a name, or a name with its schema, as an identifier."""
        mark = self.quote
        return ".".join(f"{mark}{part.replace(mark, mark + mark)}{mark}" for part in name.split("."))

    def listed(self, names: Sequence[str]) -> str:
        """Return column names, quoted; they contain dots literally."""
        mark = self.quote
        return ", ".join(f"{mark}{name.replace(mark, mark + mark)}{mark}" for name in names)

    def insert_statement(self, table: str, columns: Sequence[str]) -> str:
        """Return a statement that inserts one row."""
        values = ", ".join([self.placeholder] * len(columns))
        return f"INSERT INTO {self.quoted(table)} ({self.listed(columns)}) VALUES ({values})"

    def on_conflict(self, keys: Sequence[str], columns: Sequence[str]) -> str:
        """Return what replaces a row that has the same key."""
        others = [column for column in columns if column not in keys]
        sets = ", ".join(f"{self.listed([column])} = excluded.{self.listed([column])}" for column in others)
        action = f"DO UPDATE SET {sets}" if others else "DO NOTHING"
        return f" ON CONFLICT ({self.listed(keys)}) {action}"

    def delete_statement(self, table: str, keys: Sequence[str]) -> str:
        """Return a statement that deletes one row."""
        condition = " AND ".join(f"{self.listed([key])} = {self.placeholder}" for key in keys)
        return f"DELETE FROM {self.quoted(table)} WHERE {condition}"

    def creations(self) -> list[str]:
        """Return statements that try whether tables can be created; to be rolled back."""
        return [f"CREATE TABLE {MARKERS}_trial (n integer)"]

    def trials(self, table: str, keys: Sequence[str], columns: Iterable[str]) -> list[str]:
        """Return statements that need the rights and the key that a sink needs, and change no row."""
        name, listed = self.quoted(table), self.listed(list(columns))
        none = f"INSERT INTO {name} ({listed}) SELECT {listed} FROM {name} WHERE 1 = 0"
        if not keys:
            return [none]
        return [f"{none}{self.on_conflict(keys, list(columns))}", f"DELETE FROM {name} WHERE 1 = 0"]

    def marker_query(self, suffix: str = "") -> str:
        """Return a query of lineage and number of the last batch of a sink."""
        return f"SELECT lineage, batch FROM {MARKERS} WHERE sink = {self.placeholder}{suffix}"

    def marker_statement(self) -> str:
        """Return a statement that sets lineage and number of the last batch of a sink."""
        values = ", ".join([self.placeholder] * 3)
        statement = f"INSERT INTO {MARKERS} (sink, lineage, batch) VALUES ({values})"
        return f"{statement} ON CONFLICT (sink) DO UPDATE SET lineage = excluded.lineage, batch = excluded.batch"


class RollbackError(Exception):
    """Ends a transaction without a commit."""


def refusal_of(database: Database, statements: Sequence[str]) -> str | None:
    """Run statements in a transaction that is rolled back; return why one is refused."""
    try:
        with database.transaction():
            for statement in statements:
                database.execute(statement)
            raise RollbackError
    except RollbackError:
        return None
    except (ConnectorError, RefusedRowsError) as error:
        return str(error)


@contextmanager
def explicit_transaction(execute: Any) -> Iterator[None]:
    """Begin, and commit or roll back, by statements."""
    execute("BEGIN")
    try:
        yield
    except BaseException:
        with suppress(ConnectorError):  # some errors have ended the transaction already
            execute("ROLLBACK")
        raise
    execute("COMMIT")
