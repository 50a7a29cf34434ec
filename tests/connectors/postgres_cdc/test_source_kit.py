"""The kit that every source has to pass, for Postgres."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.servers.postgres import Postgres

from millstream.connectors.postgres_cdc import PostgresCdc
from millstream.records import Record
from millstream.testing.connectors import SOURCE_CASES, SourceSystem, check_source


class PostgresSystem(SourceSystem):
    """A table with a slot of its own, made before the first change: a snapshot would have only the last of a key."""

    def __init__(self, url: str, sql: Callable[[str], list[Any]], name: str) -> None:
        self.topic = self._name = name
        self._url, self._sql = url, sql
        sql(f"CREATE TABLE {name} (key text PRIMARY KEY, n int)")
        sql(f"CREATE PUBLICATION {name} FOR TABLE {name}")
        sql(f"SELECT pg_create_logical_replication_slot(current_database() || '_{name}', 'pgoutput')")

    def source(self) -> PostgresCdc:
        [(database,)] = self._sql("SELECT current_database()")
        slot = f"{database}_{self._name}"
        return PostgresCdc(self._url, tables=[self._name], slot=slot, publication=self._name, snapshot="never")

    def change(self, key: str, number: int | None) -> None:
        if number is None:
            self._sql(f"DELETE FROM {self._name} WHERE key = '{key}'")
        else:
            upsert = f"INSERT INTO {self._name} VALUES ('{key}', {number}) ON CONFLICT (key) DO UPDATE SET n = {number}"
            self._sql(upsert)

    def number_of(self, record: Record[bytes | None, bytes | None]) -> int | None:
        return None if record.value is None else int(msgspec.json.decode(record.value)["n"])


@pytest.mark.server
@pytest.mark.parametrize("case", SOURCE_CASES)
def test_postgres_passes_the_kit(
    case: str, postgres: Postgres, database: str, sql: Callable[[str], list[Any]], tmp_path: Path
) -> None:
    numbers = itertools.count()
    check_source(case, lambda: PostgresSystem(postgres.url(database), sql, f"t{next(numbers)}"), tmp_path)
