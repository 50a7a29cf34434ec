"""A database of Postgres for sources that are killed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.connectors.postgres_cdc.writer import Writer, prepare

_AUDIT = """
CREATE TABLE audit (id bigserial PRIMARY KEY, acc int, v bigint);
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN INSERT INTO audit (acc, v) VALUES (coalesce(NEW.id, OLD.id), NEW.v); RETURN NULL; END $$;
CREATE TRIGGER note AFTER INSERT OR UPDATE OR DELETE ON acc FOR EACH ROW EXECUTE FUNCTION note()
"""


class ChangedPostgres:
    """The tables, with a trigger that writes the changes."""

    kind = "postgres-cdc"

    def __init__(self, url: str, sql: Callable[[str], list[Any]]) -> None:
        self.url = url
        self.sql = sql

    def prepare(self, rows: int) -> None:
        """Create both tables and fill the first."""
        prepare(self.sql, rows)
        self.sql(_AUDIT)

    def writers(self, seed: int, rows: int, rate: float) -> list[Writer]:
        """Return two writers."""
        return [Writer(self.url, seed + number, rows=rows, rate=rate / 2) for number in range(2)]

    def is_read(self) -> bool:
        """Return whether both slots exist."""
        slots = "SELECT count(*) FROM pg_replication_slots WHERE database = current_database()"
        return self.sql(slots) == [(2,)]
