"""What the source refuses, and what it says about it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.connectors.change_data_reading import Reading
from tests.servers.postgres import Postgres

from millstream.connectors.postgres_cdc import PostgresCdc
from millstream.connectors.postgres_cdc.connection import Address
from millstream.connectors.postgres_cdc.position import parse_position
from millstream.errors import ConnectorError, DefinitionError, TargetUnavailableError
from millstream.secret import Secret
from millstream.testing.kafka.node import free_port

Sql = Callable[[str], list[Any]]
MakeReading = Callable[..., Reading]


@pytest.fixture
def shop(sql: Sql, reading: MakeReading) -> Reading:
    """A source that has read something, and is closed."""
    sql("CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (1)")
    shop = reading("t")
    shop.until(lambda: shop.count("t") == 1)
    shop.close()
    return shop


def changed(position: bytes | None, **changes: Any) -> bytes:
    assert position is not None
    return msgspec.structs.replace(parse_position(position), **changes).to_bytes()


def test_a_slot_that_was_moved_is_a_gap(shop: Reading, sql: Sql, database: str) -> None:
    sql("INSERT INTO t VALUES (2)")
    sql(f"SELECT pg_replication_slot_advance('{database}', pg_current_wal_lsn())")
    with pytest.raises(ConnectorError, match=f"slot '{database}' was moved to .* changes in between are lost; drop"):
        shop.open()


def test_a_slot_that_was_dropped_is_a_gap(shop: Reading, sql: Sql, database: str) -> None:
    sql(f"SELECT pg_drop_replication_slot('{database}')")
    with pytest.raises(ConnectorError, match="does not exist any longer; changes are lost"):
        shop.open()


def test_another_server_is_refused(shop: Reading) -> None:
    shop.position = changed(shop.position, system="123")
    with pytest.raises(ConnectorError, match="the position is one of 123; connect to the server that was read before"):
        shop.open()


def test_another_timeline_is_refused(shop: Reading) -> None:
    shop.position = changed(shop.position, timeline=7)
    with pytest.raises(ConnectorError, match="on timeline 1, but the position is one of timeline 7"):
        shop.open()


def test_a_table_without_a_key_is_refused(sql: Sql, reading: MakeReading) -> None:
    sql("CREATE TABLE t (id int)")
    with pytest.raises(ConnectorError, match=r"table public\.t has no primary key; add one"):
        reading("t").open()


def test_a_server_that_is_down_is_tried_again(tmp_path: Path) -> None:
    source = PostgresCdc(f"postgresql://u@127.0.0.1:{free_port()}/db", tables=["t"])
    with pytest.raises(TargetUnavailableError, match="Postgres is not available"):
        source.open(None, Reading(source, tmp_path)._context)


def test_a_reader_says_that_the_server_has_gone(shop: Reading, sql: Sql, database: str) -> None:
    shop.open()
    sql(f"SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE slot_name = '{database}'")
    with pytest.raises(TargetUnavailableError):
        shop.until(lambda: False)
    shop.close()
    sql("INSERT INTO t VALUES (2)")
    shop.until(lambda: shop.count("t") == 2)


def test_check_says_what_is_missing(sql: Sql, postgres: Postgres, database: str) -> None:
    sql("CREATE TABLE bare (id int); CREATE TABLE fine (id int PRIMARY KEY)")
    sql(f"CREATE ROLE {database} LOGIN")
    source = PostgresCdc(postgres.url(database, user=database), tables=["bare", "fine", "absent"])
    problems = source.check()
    assert [problem.partition(";")[0] for problem in problems] == [
        "the user may not replicate",
        "table public.bare has no primary key",
        "the user may not read public.bare",
        "the user may not read public.fine",
        "table public.absent does not exist",
        "the user may not publish public.bare, public.fine, public.absent",
    ]
    sql(f"DROP ROLE {database}")


@pytest.mark.parametrize("url", ["mysql://u@h/db", "postgresql://u:secret@h/db", "postgresql://u@h"])
def test_an_invalid_url_is_refused_without_repeating_it(url: str) -> None:
    with pytest.raises(DefinitionError) as raised:
        PostgresCdc(url, tables=["t"])
    assert "secret" not in str(raised.value)


def test_tables_that_would_share_a_topic_are_refused() -> None:
    tables = ["a.orders", "b.orders"]
    with pytest.raises(DefinitionError, match=r"a\.orders and b\.orders have the same topic 'orders'"):
        PostgresCdc("postgresql://u@h/db", tables=tables)
    assert sorted(PostgresCdc("postgresql://u@h/db", tables=tables, topic="{schema}.{table}").topics()) == tables


def test_a_password_without_a_user_does_not_become_part_of_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PG_SECRET", "p@ss")
    address = Address("postgresql://h:5433/db", Secret.env("PG_SECRET"))
    assert address.connection_string().startswith("postgresql://:p%40ss@h:5433/db?")


def test_an_idle_source_lets_the_server_forget_its_log(shop: Reading, sql: Sql, database: str) -> None:
    """Other tables are written to, and the slot still moves."""
    sql("CREATE TABLE other (body text)")
    before = sql(f"SELECT confirmed_flush_lsn FROM pg_replication_slots WHERE slot_name = '{database}'")
    sql("INSERT INTO other SELECT repeat(md5(i::text), 100) FROM generate_series(1, 10000) i")  # more than 16 MB

    def has_moved() -> bool:
        return sql(f"SELECT confirmed_flush_lsn FROM pg_replication_slots WHERE slot_name = '{database}'") != before

    shop.until(has_moved)
    assert shop.count("t") == 1


def test_names_that_look_like_sql_are_names(postgres: Postgres, database: str, sql: Sql, tmp_path: Path) -> None:
    """Names are quoted, also in the protocol of replication, which has no parameters."""
    table, hostile = "s'; DROP TABLE safe; -- %s", 'n"; DROP TABLE safe; -- %s'
    column = hostile.replace('"', '""')
    user = f"owner_of_{database}"
    sql(f"CREATE ROLE {user} LOGIN REPLICATION; GRANT CREATE ON DATABASE {database} TO {user}")
    sql("CREATE TABLE safe (id int)")
    sql(f'CREATE TABLE "{table}" ("{column}" text PRIMARY KEY, "{{x}}" text)')
    sql(f'ALTER TABLE "{table}" OWNER TO {user}')
    keys = ["a", "'", '"', "\\", "'); DROP TABLE safe; --", "%s"]
    for key in keys:
        sql("INSERT INTO \"{}\" VALUES ('{}', 'x')".format(table, key.replace("'", "''")))
    source = PostgresCdc(
        postgres.url(database, user),
        tables=[table],
        topic="rows",
        slot=database,
        publication="p\"'; DROP TABLE safe; -- ,",
        chunk_rows=1,
    )
    reading = Reading(source, tmp_path / "state")
    try:
        assert source.check() == []
        reading.until(lambda: reading.count("rows") == len(keys))
        sql(f"INSERT INTO \"{table}\" VALUES ('later', 'y')")
        reading.until(lambda: b"later" in reading.table("rows"))
    finally:
        reading.close()
    assert {value[hostile] for value in reading.values("rows")} == {*keys, "later"}
    assert sql("SELECT count(*) FROM safe") == [(0,)]
