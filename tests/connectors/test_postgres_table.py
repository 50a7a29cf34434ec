"""Tables of a real PostgreSQL: the kit, types, names with schemas and odd characters, an outage."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any, Literal

import psycopg
import pytest
from tests.connectors.batches import batch, context
from tests.servers.postgres import Postgres

from millstream.connect.protocols import RecordsRejectedError
from millstream.connectors.sql_tables import PostgresTable
from millstream.errors import DefinitionError, TargetUnavailableError
from millstream.testing.connectors import SINK_CASES, SinkTarget, check_sink

pytestmark = [pytest.mark.server, pytest.mark.xdist_group("server postgres")]


class PostgresTarget(SinkTarget):
    """A table of its own; text does not fit into its column of integers."""

    poison = {"n": "seven"}
    mode: Literal["upsert", "append"] = "upsert"

    def __init__(self, url: str, table: str) -> None:
        self.url, self.table = url, table
        with psycopg.connect(url) as connection:
            connection.execute("DROP TABLE IF EXISTS millstream_sinks")

    def sink(self) -> PostgresTable:
        return PostgresTable(self.url, self.table, mode=self.mode, columns={"n": "bigint"})

    def rows(self) -> list[tuple[Any, Any]]:
        with psycopg.connect(self.url) as connection:
            return [(key, {"n": n}) for key, n in connection.execute(f"SELECT key, n FROM {self.table}").fetchall()]


class PostgresAppend(PostgresTarget):
    is_keyed = False
    mode = "append"


@pytest.mark.parametrize("case", SINK_CASES)
@pytest.mark.parametrize("kind", [PostgresTarget, PostgresAppend])
def test_the_kit(kind: type[PostgresTarget], case: str, postgres: Postgres, database: str, tmp_path: Path) -> None:
    numbers = itertools.count()
    check_sink(case, lambda: kind(postgres.url(database), f"numbers_{next(numbers)}"), tmp_path)


def test_many_rows_of_all_types_are_copied(postgres: Postgres, database: str, tmp_path: Path) -> None:
    postgres.execute('CREATE SCHEMA "My Shop"', database=database)
    sink = PostgresTable(postgres.url(database), "My Shop.orders")
    writer = sink.open(context(tmp_path))
    odd = 'tab\t, line\nfeed, back\\slash, "quote", \\N, é'
    rows: list[tuple[str, dict[str, Any]]] = [
        (f"k{n}", {"n": n, "x": n / 4, "ok": n % 2 == 0, "note": odd, "tags": {"n": [n]}, "none": None, "so.me": "y"})
        for n in range(100)
    ]
    writer.write(batch(1, rows))
    writer.write(batch(2, [(key, {**value, "n": -value["n"]}) for key, value in rows]))
    writer.write(batch(3, [("k1", None), ("k2", {"n": 7})]))
    writer.close()
    query = 'SELECT key, n, x, ok, note, tags, "so.me" FROM "My Shop".orders ORDER BY abs(n), key'
    stored = postgres.execute(query, database=database)
    assert len(stored) == 99
    assert ("k3", -3, 0.75, False, odd, {"n": [3]}, "y") in stored
    assert ("k2", 7, None, None, None, None, None) in stored


def test_the_database_rejects_rows_and_errors_are_translated(postgres: Postgres, database: str, tmp_path: Path) -> None:
    url = postgres.url(database)
    postgres.execute("CREATE TABLE small (key text PRIMARY KEY, n int CHECK (n < 50))", database=database)
    writer = PostgresTable(url, "small").open(context(tmp_path))
    with pytest.raises(RecordsRejectedError) as rejected:
        writer.write(batch(1, [(f"k{n}", {"n": 2**40 if n == 3 else n}) for n in range(52)]))
    assert [item.record.key for item in rejected.value.rejected] == ["k3", "k50", "k51"]
    writer.close()
    with pytest.raises(TargetUnavailableError, match=r"PostgreSQL cannot be used now: .*does not exist"):
        PostgresTable(postgres.url("missing"), "small").open(context(tmp_path))
    with pytest.raises(TargetUnavailableError, match="PostgreSQL cannot be used now"):
        PostgresTable("postgresql://u@127.0.0.1:1/x", "small").open(context(tmp_path))


def test_passwords_are_references_and_other_hosts_are_reached_with_tls() -> None:
    with pytest.raises(DefinitionError, match="the URL contains a password"):
        PostgresTable("postgresql://app:pw@localhost/bi", "totals")
    assert PostgresTable("postgresql://app@localhost/bi", "totals").url == "postgresql://app@localhost/bi"
    assert PostgresTable("postgresql://app@db/bi", "totals").url == "postgresql://app@db/bi?sslmode=require"
    plain = PostgresTable("postgresql://app@db/bi", "totals", allow_plain_text=True)
    assert plain.url == "postgresql://app@db/bi"
