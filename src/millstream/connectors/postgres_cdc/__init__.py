"""Change data capture from Postgres: rows and their changes as records, exactly once."""

from millstream.connectors.postgres_cdc.outbox import OutboxTable, emit
from millstream.connectors.postgres_cdc.source import PostgresCdc

__all__ = ["OutboxTable", "PostgresCdc", "emit"]
