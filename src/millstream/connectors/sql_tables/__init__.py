"""Sinks that write to tables of SQL databases, exactly once: rows and the number of the batch are one transaction."""

from __future__ import annotations

from millstream.connectors.sql_tables.duckdb import DuckdbTable
from millstream.connectors.sql_tables.mysql import MysqlTable
from millstream.connectors.sql_tables.postgres import PostgresTable
from millstream.connectors.sql_tables.sqlite import SqliteTable

__all__ = ["DuckdbTable", "MysqlTable", "PostgresTable", "SqliteTable"]
