"""``check`` of every sink: it connects, changes nothing, and names what is missing in a sentence."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import duckdb
import psycopg
import pytest
from tests.connectors.batches import batch, context
from tests.connectors.test_email import OPTIONS, Mailbox, serve
from tests.servers.postgres import Postgres
from tests.servers.receiver import receiver

from millstream import Secret
from millstream.connect.kinds import KINDS
from millstream.connect.protocols import SupportsCheck
from millstream.connectors.delta import Delta
from millstream.connectors.email import Email
from millstream.connectors.files import Files
from millstream.connectors.iceberg import Iceberg
from millstream.connectors.opensearch import OpenSearch
from millstream.connectors.slack import Slack
from millstream.connectors.sql_tables import DuckdbTable, PostgresTable, SqliteTable
from millstream.connectors.webhook import Webhook
from millstream.testing.kafka.node import free_port


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_can_check(kind: str) -> None:
    assert callable(getattr(KINDS[kind].load(), "check", None))


def only(sink: SupportsCheck) -> str:
    """Return the only problem of a sink."""
    (problem,) = sink.check()
    return problem


@pytest.mark.parametrize("kind", [SqliteTable, DuckdbTable])
def test_files_of_databases(kind: Any, tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    assert kind(path, "orders").check() == []
    assert not path.exists()
    (tmp_path / "file").write_text("")
    assert "is not a directory; choose another path" in only(kind(tmp_path / "file" / "shop.db", "orders"))
    connection: Any = sqlite3.connect(path) if kind is SqliteTable else duckdb.connect(str(path))
    connection.execute("CREATE TABLE orders (key VARCHAR, n BIGINT)")
    connection.execute("CREATE TABLE keyed (key VARCHAR PRIMARY KEY, n BIGINT)")
    connection.execute("INSERT INTO keyed VALUES ('a', 1)")
    connection.commit()
    connection.close()
    assert kind(path, "keyed").check() == []
    assert kind(path, "orders", mode="append").check() == []
    assert "check its key and your rights" in only(kind(path, "orders"))
    assert "does not exist; create it" in only(kind(path, "absent", create=False))
    missing = only(kind(path, "keyed", columns={"total": "DOUBLE"}, evolve=False))
    assert missing == "table 'keyed' has no column 'total'; add it, or leave evolve=False out"
    connection = sqlite3.connect(path) if kind is SqliteTable else duckdb.connect(str(path))
    assert connection.execute("SELECT key, n FROM keyed").fetchall() == [("a", 1)]
    connection.close()


def test_files_and_tables_of_a_lake(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for sink in (Files(str(tmp_path / "new")), Delta(str(tmp_path / "new"))):
        assert sink.check() == []
    assert not (tmp_path / "new").exists()
    assert "is not a directory" in only(Files(str(tmp_path / "file" / "below")))
    assert "is not a directory" in only(Delta(str(tmp_path / "file" / "below")))
    table = str(tmp_path / "table")
    Delta(table, columns={"n": "int64"}).open(context(tmp_path / "own")).write(batch(1, [("a", {"n": 1})]))
    assert Delta(table, mode="upsert", columns={"n": "int64"}).check() == []
    assert "has type int64, and columns= says string; change columns=" in only(Delta(table, columns={"n": "string"}))


def test_a_table_of_a_catalog(tmp_path: Path) -> None:
    catalog = {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}/lake"}
    assert Iceberg("shop.totals", catalog=catalog).check() == []
    writer = Iceberg("shop.totals", catalog=catalog).open(context(tmp_path / "own"))
    writer.write(batch(1, [("a", {"n": 1})]))
    assert Iceberg("shop.totals", catalog=catalog, mode="upsert").check() == []
    problem = only(Iceberg("shop.totals", catalog=catalog, columns={"n": "string"}))
    assert "column 'n' of table 'shop.totals' has type" in problem
    assert "cannot write to table" in only(Iceberg("a.b", catalog={"type": "rest", "uri": "http://127.0.0.1:1"}))


def test_targets_of_messages_are_connected_to_and_get_no_request() -> None:
    with receiver() as target:
        assert Webhook(target.url).check() == []
        assert Slack(target.url).check() == []
    assert target.received == []
    for sink in (Webhook(target.url), Slack(target.url)):  # it has stopped
        assert "'127.0.0.1' cannot be reached: " in only(sink)
    assert "cannot be reached" in only(OpenSearch(target.url, index="orders"))


def test_a_mail_server_is_logged_in_to_and_gets_no_mail(monkeypatch: pytest.MonkeyPatch) -> None:
    mailbox, port = Mailbox(), free_port()
    with serve(mailbox, port):
        assert Email(f"smtp://127.0.0.1:{port}", **OPTIONS).check() == []
        monkeypatch.setenv("SECRET", "wrong")
        refused = Email(f"smtp://127.0.0.1:{port}", user="shop", password=Secret.env("SECRET"), **OPTIONS)
        assert "'127.0.0.1' cannot be" in only(refused)
    assert mailbox.mails == []
    assert "cannot be reached" in only(Email(f"smtp://127.0.0.1:{port}", **OPTIONS))


@pytest.mark.server
def test_rights_in_postgres(postgres: Postgres, database: str) -> None:
    role = f"reader_{database}"
    with psycopg.connect(postgres.url(database), autocommit=True) as connection:
        connection.execute("CREATE TABLE orders (key text PRIMARY KEY, n bigint)")
        connection.execute("CREATE TABLE unkeyed (key text, n bigint)")
        connection.execute(f"CREATE ROLE {role} LOGIN")
        connection.execute(f"GRANT SELECT ON orders TO {role}")
    try:
        assert PostgresTable(postgres.url(database), "orders").check() == []
        assert PostgresTable(postgres.url(database), "absent").check() == []
        assert "no unique or exclusion constraint" in only(PostgresTable(postgres.url(database), "unkeyed"))
        creating, writing = PostgresTable(postgres.url(database, role), "orders").check()
        assert creating.startswith("tables cannot be created: ")
        assert "permission denied for table orders" in writing
        tables = postgres.execute("SELECT relname FROM pg_class WHERE relname LIKE 'millstream%'", database=database)
        assert tables == []
    finally:
        postgres.execute(f"REVOKE ALL ON orders FROM {role}", database=database)
        postgres.execute(f"DROP ROLE {role}")
