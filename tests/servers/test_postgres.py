"""The Postgres of the tests is ready for logical replication."""

from __future__ import annotations

import psycopg
import pytest
from tests.servers.postgres import Postgres


def test_postgres_decodes_its_log(postgres: Postgres, database: str) -> None:
    postgres.execute("CREATE TABLE t (id int PRIMARY KEY)", database=database)
    postgres.execute(f"SELECT pg_create_logical_replication_slot('{database}', 'test_decoding')", database=database)
    postgres.execute("INSERT INTO t VALUES (1)", database=database)
    changes = postgres.execute(
        f"SELECT data FROM pg_logical_slot_get_changes('{database}', NULL, NULL)", database=database
    )
    assert changes[1] == ("table public.t: INSERT: id[integer]:1",)


@pytest.mark.server
def test_a_stopped_postgres_starts_again_with_its_data() -> None:
    server = Postgres().create()
    try:
        server.start()
        server.execute("CREATE TABLE kept (id int)")
        server.stop()
        with pytest.raises(psycopg.OperationalError):
            server.execute("SELECT 1")
        server.start()
        assert server.execute("SELECT * FROM kept") == []
    finally:
        server.remove()
