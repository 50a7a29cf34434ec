"""Names and values of records that look like SQL: they are stored as they are, or reject their own record only."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Any

import duckdb
import msgspec
import pytest
from tests.connectors.batches import batch, context
from tests.servers.postgres import Postgres

from millstream.connect.protocols import RecordsRejectedError
from millstream.connectors.sql_tables import DuckdbTable, PostgresTable, SqliteTable
from millstream.connectors.sql_tables.table import SqlTable
from millstream.errors import DefinitionError

Make = Callable[..., SqlTable]
Query = Callable[[str], list[Any]]
Opened = Callable[[Path], tuple[Make, Query]]

NAMES = [
    *(
        'a"b',
        'a""b',
        '"',
        "a'b",
        "a`b",
        "a]b",
        "a.b",
        "a;b",
        "a--b",
        "a/*b",
        "\\",
        "\n",
        "\t",
        " ",
        "*",
        "é",
        "ẞ",
        "🦆",
    ),
    *(
        "%",
        "%s",
        "%%s",
        "%(a)s",
        "?",
        "?1",
        ":a",
        "$1",
        "@a",
        "{}",
        "{0}",
        "null",
        "select",
        "excluded",
        "target",
        "rows",
    ),
    *('a"); DROP TABLE safe; --', "a'); DROP TABLE safe; --", 'a" BIGINT); DROP TABLE safe; --', "millstream_rows"),
]
VALUES = [
    *(
        "'",
        '"',
        "''",
        "\\",
        "\\'",
        "\\.",
        "\\N",
        "\t",
        "\n\\.\n",
        "%s",
        "%",
        "?",
        "$1",
        ":a",
        "NULL",
        "",
        "\u2028",
        "é",
    ),
    *("'); DROP TABLE safe; --", '"); DROP TABLE safe; --', "x'; DELETE FROM safe; --", "1 OR 1=1", "' OR ''='"),
]


class Text(StrEnum):
    """A text that is not of type str itself."""

    TABS = "a\tb\nc"


def check_names_and_values(make: Make, query: Query, directory: Path, mark: str = '"') -> None:
    """Write hostile names, values and keys, few and many rows at a time, and compare what is stored."""
    query("CREATE TABLE safe (n INTEGER)")
    query("INSERT INTO safe VALUES (1)")
    table = "or\"de'rs; DROP TABLE safe; -- %s"
    names = [name for name in NAMES if mark == '"' or name not in ("🦆", " ", "\n", "\t")]  # MySQL has no such names
    fields = dict(zip(names, VALUES * 2, strict=False)) | {"enum": Text.TABS}
    writer = make(table, key="k'ey\"%s").open(context(directory))
    writer.write(batch(1, [(key, fields) for key in VALUES]))
    writer.write(batch(2, [(f"{key}{n}", {**fields, "n": n}) for n in range(2) for key in VALUES]))
    writer.write(batch(3, [(key, None) for key in VALUES[1:]] + [(VALUES[0], {**fields, "n": 7})]))
    writer.close()
    table, *columns = [f"{mark}{name.replace(mark, mark * 2)}{mark}" for name in (table, "k'ey\"%s", *fields, "n")]
    expected = [(f"{key}{n}", *fields.values(), n) for n in range(2) for key in VALUES]
    expected.append((VALUES[0], *fields.values(), 7))
    assert sorted(query(f"SELECT {', '.join(columns)} FROM {table}")) == sorted(expected)
    assert query("SELECT n FROM safe") == [(1,)]


def check_refused_names(make: Make, query: Query, directory: Path, names: list[str]) -> None:
    """A name that the database cannot have rejects its record, and no other."""
    writer = make("orders").open(context(directory))
    writer.write(batch(1, [("a", {"n": 1})]))
    for name in ["a\0b", "\0", "\ud800", "x" * 5000, *names]:
        with pytest.raises(RecordsRejectedError) as rejected:
            writer.write(batch(2, [("b", {"n": 2}), ("c", {"n": 3, name: 1})]))
        assert [item.record.key for item in rejected.value.rejected] == ["c"]
        assert rejected.value.rejected[0].error.isprintable()
    with pytest.raises(RecordsRejectedError, match="the table would have more than 1,000 columns"):
        writer.write(batch(2, [("c", {f"c{n}": n for n in range(3000)})]))
    writer.write(batch(2, [("b", {"n": 2})]))
    writer.close()
    assert sorted(query("SELECT * FROM orders")) == [(1, "a"), (2, "b")]


def check_refused_values(make: Make, query: Query, directory: Path, values: list[Any]) -> None:
    """A value that cannot be stored rejects its record, and no other."""
    writer = make("orders", columns={"x": "TEXT", "y": "TEXT"}).open(context(directory))
    writer.write(batch(1, [("a", {"x": "1", "y": [1]})]))
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    for value in ["\ud800", ["\ud800"], msgspec.msgpack.Ext(1, b"x"), [object()], deep, *values]:
        with pytest.raises(RecordsRejectedError) as rejected:
            writer.write(batch(2, [("b", {"x": "2"}), ("c", {"x": value})]))
        assert [item.record.key for item in rejected.value.rejected] == ["c"]
        assert rejected.value.rejected[0].error.isprintable()
        assert len(rejected.value.rejected[0].error) < 400
    writer.close()
    assert query("SELECT * FROM orders") == [("1", "[1]", "a")]


def check_keys(make: Make, query: Query, directory: Path) -> None:
    """Keys are compared by name: other fields, or their order, do not select another row."""
    writer = make("orders").open(context(directory))
    writer.write(batch(1, [({"a": 1, "b": 2}, {"n": 1}), ({"a": 2, "b": 1}, {"n": 2}), ({"b": 3, "a": 3}, {"n": 3})]))
    for key in ({"a": 1}, {"c": 1, "d": 2}, {"a": 1, "b": 2, "c": 3}, {"a": 1, "b": None}, "x", {}):
        for value in ({"n": 9}, None):
            with pytest.raises(RecordsRejectedError) as rejected:
                writer.write(batch(2, [({"a": 1, "b": 2}, {"n": 4}), (key, value)]))
            assert [item.record.key for item in rejected.value.rejected] == [key]
    writer.write(batch(2, [({"b": 2, "a": 1}, None), ({"b": 3, "a": 3}, {"n": 5})]))
    writer.close()
    assert sorted(query("SELECT a, b, n FROM orders")) == [(2, 1, 2), (3, 3, 5)]


def sqlite_in(directory: Path) -> tuple[Make, Query]:
    path = directory / "t.db"

    def query(statement: str) -> list[Any]:
        with sqlite3.connect(path) as connection:
            return connection.execute(statement).fetchall()

    return lambda table, **options: SqliteTable(path, table, **options), query


def duckdb_in(directory: Path) -> tuple[Make, Query]:
    path = directory / "t.db"

    def query(statement: str) -> list[Any]:
        with duckdb.connect(str(path)) as connection:
            return connection.execute(statement).fetchall()

    return lambda table, **options: DuckdbTable(path, table, **options), query


FILES = pytest.mark.parametrize("database_in", [sqlite_in, duckdb_in])


@FILES
def test_names_and_values_are_stored_as_they_are(database_in: Opened, tmp_path: Path) -> None:
    check_names_and_values(*database_in(tmp_path), tmp_path / "sink")


@FILES
def test_a_name_that_a_table_cannot_have_rejects_its_record(database_in: Opened, tmp_path: Path) -> None:
    check_refused_names(*database_in(tmp_path), tmp_path / "sink", ["N", "KEY"])


@FILES
def test_a_value_that_a_table_cannot_hold_rejects_its_record(database_in: Opened, tmp_path: Path) -> None:
    check_refused_values(*database_in(tmp_path), tmp_path / "sink", [])


@FILES
def test_a_key_with_other_fields_reaches_no_other_row(database_in: Opened, tmp_path: Path) -> None:
    check_keys(*database_in(tmp_path), tmp_path / "sink")


@FILES
def test_a_table_is_known_by_its_schema(database_in: Opened, tmp_path: Path) -> None:
    make, query = database_in(tmp_path)
    query("CREATE TABLE main.rows (key TEXT PRIMARY KEY, n BIGINT, UNIQUE (n))")
    writer = make("main.rows").open(context(tmp_path / "sink"))
    writer.write(batch(1, [("a", {"n": 1}), ({"n": 2}, {"key": "b"})]))  # each of its unique keys finds a row
    writer.write(batch(2, [({"n": 2}, {"key": "c"})]))
    writer.close()
    assert sorted(query("SELECT key, n FROM rows")) == [("a", 1), ("c", 2)]


@pytest.mark.parametrize("setting", [{"table": ""}, {"table": "a."}, {"table": "a\0b"}, {"table": "t", "key": ""}])
def test_names_of_settings_are_checked(setting: dict[str, str]) -> None:
    with pytest.raises(DefinitionError, match="is not a valid name"):
        SqliteTable("t.db", **setting)


@pytest.mark.server
def test_postgres_binds_values_and_quotes_names(postgres: Postgres, database: str, tmp_path: Path) -> None:
    def make(table: str, **options: Any) -> PostgresTable:
        return PostgresTable(postgres.url(database), table, **options)

    def query(statement: str) -> list[Any]:
        return postgres.execute(statement, database=database)

    check_names_and_values(make, query, tmp_path / "names")
    query("DROP TABLE millstream_sinks")
    check_keys(make, query, tmp_path / "keys")
    query("DROP TABLE orders, millstream_sinks")
    check_refused_names(make, query, tmp_path / "refused", ["x" * 64, "ctid", "xmin"])
    query("DROP TABLE orders, millstream_sinks")
    writer = make("orders").open(context(tmp_path / "long"))
    noise = random.Random(1).randbytes(6000).hex()  # too long for the index, even compressed
    with pytest.raises(RecordsRejectedError, match="index row"):
        writer.write(batch(1, [("a", {"n": 1}), (noise, {"n": 2})]))
    writer.close()
    query("DROP TABLE orders, millstream_sinks")
    check_refused_values(make, query, tmp_path / "values", ["\0"])
