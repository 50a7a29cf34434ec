"""Tables of SQLite and DuckDB: the kit, types, evolution, refusals."""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest
from tests.connectors.batches import batch, context

from millstream.connect.protocols import RecordsRejectedError
from millstream.connectors.sql_tables import DuckdbTable, SqliteTable
from millstream.connectors.sql_tables.table import SqlTable
from millstream.errors import ConnectorError, DefinitionError
from millstream.testing.connectors import SINK_CASES, SinkTarget, check_sink


class TableTarget(SinkTarget):
    """A table in a file; text does not fit into its column of integers."""

    poison = {"n": "seven"}
    mode = "upsert"

    def __init__(self, path: Path) -> None:
        self.path = path

    def sink(self) -> SqlTable:
        sink: SqlTable = self.kind(self.path, "numbers", mode=self.mode, columns={"n": "BIGINT"})
        return sink

    kind: type[Any]

    def query(self, statement: str) -> list[Any]:
        raise NotImplementedError

    def rows(self) -> list[tuple[Any, Any]]:
        return [(key, {"n": n}) for key, n in self.query("SELECT key, n FROM numbers")]


class SqliteTarget(TableTarget):
    kind = SqliteTable

    def query(self, statement: str) -> list[Any]:
        with sqlite3.connect(self.path) as connection:
            return connection.execute(statement).fetchall()


class DuckdbTarget(TableTarget):
    kind = DuckdbTable

    def query(self, statement: str) -> list[Any]:
        with duckdb.connect(str(self.path)) as connection:
            return connection.execute(statement).fetchall()


class SqliteAppend(SqliteTarget):
    is_keyed = False
    mode = "append"


class DuckdbAppend(DuckdbTarget):
    is_keyed = False
    mode = "append"


TARGETS: list[type[TableTarget]] = [SqliteTarget, DuckdbTarget, SqliteAppend, DuckdbAppend]
KEYED = [SqliteTarget, DuckdbTarget]


def maker(kind: type[TableTarget], directory: Path) -> Callable[[], TableTarget]:
    numbers = itertools.count()
    return lambda: kind(directory / f"{next(numbers)}.db")


@pytest.mark.parametrize("case", SINK_CASES)
@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=[pytest.mark.slow] * issubclass(kind, DuckdbTarget)) for kind in TARGETS]
)
def test_the_kit(kind: type[TableTarget], case: str, tmp_path: Path) -> None:
    check_sink(case, maker(kind, tmp_path), tmp_path / "log")


@pytest.mark.parametrize("kind", KEYED)
def test_types_are_inferred_and_columns_are_added_but_never_changed(kind: type[TableTarget], tmp_path: Path) -> None:
    target = kind(tmp_path / "t.db")
    writer = target.kind(target.path, "orders").open(context(tmp_path))
    writer.write(batch(1, [("a", {"n": 1, "ok": True, "celsius": 1.5, "tags": ["x"], "none": None}), ("b", {"n": 2})]))
    writer.write(batch(2, [("b", {"n": 3, "city": "Bern"})]))
    with pytest.raises(RecordsRejectedError) as rejected:
        writer.write(batch(3, [("c", {"n": "many"}), ("d", {"n": 4}), (None, {"n": 5}), ("e", {"n": 2**70})]))
    errors = {item.error.split(" ")[0] for item in rejected.value.rejected}
    assert errors == {"it", "column", "1180591620717411303424"}
    writer.close()
    rows = target.query("SELECT key, n, ok, celsius, tags, city FROM orders ORDER BY key")
    assert rows == [("a", 1, True, 1.5, '["x"]', None), ("b", 3, None, None, None, "Bern")]


@pytest.mark.parametrize("kind", KEYED)
def test_a_constraint_of_the_database_rejects_only_the_rows_that_break_it(
    kind: type[TableTarget], tmp_path: Path
) -> None:
    target = kind(tmp_path / "t.db")
    target.query("CREATE TABLE orders (key VARCHAR PRIMARY KEY, n BIGINT CHECK (n < 10))")
    writer = target.kind(target.path, "orders").open(context(tmp_path))
    rows = [(f"k{n}", {"n": n}) for n in range(12)]
    with pytest.raises(RecordsRejectedError) as rejected:
        writer.write(batch(1, rows))
    assert [item.record.key for item in rejected.value.rejected] == ["k10", "k11"]
    assert "CHECK" in rejected.value.rejected[0].error
    writer.write(batch(1, rows[:10]))
    writer.close()
    assert len(target.query("SELECT * FROM orders")) == 10


@pytest.mark.parametrize("kind", KEYED)
def test_rows_that_the_database_refuses_together_only_are_rejected_but_for_the_first(
    kind: type[TableTarget], tmp_path: Path
) -> None:
    target = kind(tmp_path / "t.db")
    target.query("CREATE TABLE orders (key VARCHAR, code BIGINT UNIQUE)")
    writer = target.kind(target.path, "orders", mode="append").open(context(tmp_path))
    rows = [(f"k{n}", {"code": n % 5}) for n in range(8)]
    with pytest.raises(RecordsRejectedError) as rejected:
        writer.write(batch(1, rows))
    assert [item.record.key for item in rejected.value.rejected] == ["k5", "k6", "k7"]
    writer.write(batch(1, rows[:5]))
    writer.close()
    assert len(target.query("SELECT * FROM orders")) == 5


@pytest.mark.parametrize("kind", KEYED)
def test_the_order_of_the_fields_of_a_key_does_not_matter(kind: type[TableTarget], tmp_path: Path) -> None:
    target = kind(tmp_path / "t.db")
    writer = target.kind(target.path, "orders").open(context(tmp_path))
    writer.write(batch(1, [({"a": 1, "b": 2}, {"n": 1}), ({"a": 2, "b": 1}, {"n": 2})]))
    writer.write(batch(2, [({"a": 3, "b": 3}, {"n": 3}), ({"b": 2, "a": 1}, None)]))
    writer.close()
    assert target.query("SELECT a, b, n FROM orders ORDER BY a") == [(2, 1, 2), (3, 3, 3)]


@pytest.mark.parametrize("kind", KEYED)
def test_another_lineage_is_refused_unless_it_is_adopted(kind: type[TableTarget], tmp_path: Path) -> None:
    target = kind(tmp_path / "t.db")
    writer = target.kind(target.path, "orders").open(context(tmp_path))
    writer.write(batch(1, [("a", {"n": 1})]))
    with pytest.raises(ConnectorError, match="was written by lineage 'first', and this batch is of 'second'"):
        writer.write(batch(1, [("a", {"n": 2})], lineage="second"))
    writer.close()
    writer = target.kind(target.path, "orders", on_other_lineage="adopt").open(context(tmp_path))
    writer.write(batch(1, [("a", {"n": 3})], lineage="second"))
    writer.close()
    assert target.query("SELECT key, n FROM orders") == [("a", 3)]


def test_settings_are_checked() -> None:
    with pytest.raises(DefinitionError, match="mode='replace' is not valid; use 'upsert' or 'append'"):
        SqliteTable("t.db", "orders", mode="replace")
