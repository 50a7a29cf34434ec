"""What the database must have before changes can be read: rights, tables with keys, a publication and a slot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from millstream.connectors.change_data.relation import RelationColumn, ReplicatedTable
from millstream.connectors.postgres_cdc.connection import import_psycopg, translated_errors
from millstream.errors import ConnectorError

if TYPE_CHECKING:
    import psycopg

_COLUMNS = """
SELECT a.attname, a.atttypid::int8, a.atttypmod, coalesce(a.attnum = ANY (i.indkey), false), c.relreplident::text,
       c.oid::int8
FROM pg_class c
JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
LEFT JOIN pg_index i ON i.indrelid = c.oid
     AND CASE WHEN c.relreplident = 'i' THEN i.indisreplident ELSE i.indisprimary END
WHERE n.nspname = %s AND c.relname = %s AND c.relkind IN ('r', 'p')
ORDER BY a.attnum
"""
_SLOT = """
SELECT plugin, database, confirmed_flush_lsn::text, wal_status, active_pid,
       coalesce(pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn), 0)::float8, safe_wal_size::float8
FROM pg_replication_slots WHERE slot_name = %s
"""


class SlotInfo(msgspec.Struct, frozen=True):
    """The replication slot of the source."""

    plugin: str
    database: str
    confirmed: str | None
    wal_status: str | None
    active_pid: int | None
    retained_bytes: float
    """How much of the log the server keeps for the slot."""
    safe_bytes: float | None
    """How much more may be written before the server drops what the slot needs; None if unlimited."""


class DatabaseCatalog:
    """Reads the catalog of the database and creates what is missing."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection

    def rows(self, statement: Any, arguments: Sequence[Any] = ()) -> list[Any]:
        with translated_errors():
            cursor = self._connection.execute(statement, tuple(arguments) or None)
            return cursor.fetchall() if cursor.description else []

    def relation(self, table: str) -> ReplicatedTable | None:
        """Return a table with its columns and its key; None if it does not exist."""
        schema, _, name = table.partition(".")
        rows = self.rows(_COLUMNS, (schema, name))
        if not rows:
            return None
        columns = tuple(
            RelationColumn(column, type_id, modifier, is_key) for column, type_id, modifier, is_key, *_ in rows
        )
        return ReplicatedTable(schema, name, columns, rows[0][5], rows[0][4])

    def slot(self, name: str) -> SlotInfo | None:
        rows = self.rows(_SLOT, (name,))
        return SlotInfo(*rows[0]) if rows else None

    def create_slot(self, name: str) -> None:
        self.rows("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", (name,))

    def new_transaction(self) -> int:
        """Return an id above those of all transactions so far; the end of a snapshot is only above those that ended."""
        return int(self.rows("SELECT pg_current_xact_id()::text")[0][0])

    def published_tables(self, publication: str) -> dict[str, dict[str, Any]] | None:
        """Return the tables of a publication with their row filters and columns; None if it does not exist."""
        if not self.rows("SELECT 1 FROM pg_publication WHERE pubname = %s", (publication,)):
            return None
        rows = self.rows("SELECT to_jsonb(p) FROM pg_publication_tables p WHERE pubname = %s", (publication,))
        return {f"{row['schemaname']}.{row['tablename']}": row for (row,) in rows}

    def publish(self, publication: str, tables: Sequence[str]) -> bool:
        """Create the publication or add tables to it; return whether it has changed."""
        sql = import_psycopg().sql
        published = self.published_tables(publication)
        missing = [table for table in tables if published is None or table not in published]
        if not missing and published is not None:
            return False
        names = sql.SQL(", ").join(sql.Identifier(*table.split(".", 1)) for table in missing)
        if published is not None:
            self.rows(sql.SQL("ALTER PUBLICATION {} ADD TABLE {}").format(sql.Identifier(publication), names))
        elif missing:
            statement = "CREATE PUBLICATION {} FOR TABLE {} WITH (publish_via_partition_root = true)"
            self.rows(sql.SQL(statement).format(sql.Identifier(publication), names))
        else:
            self.rows(sql.SQL("CREATE PUBLICATION {}").format(sql.Identifier(publication)))
        return True

    def problems(self, tables: Sequence[str], slot: str, publication: str) -> list[str]:
        """Return what is missing, a sentence each."""
        problems = []
        (level,), (version,) = self.rows("SHOW wal_level")[0], self.rows("SHOW server_version_num")[0]
        if int(version) < 130_000:
            problems.append(f"the server has version {version}, but 130000 or newer is required; upgrade it")
        if level != "logical":
            problems.append(f"wal_level is {level!r}; set it to 'logical' and restart the server")
        may_replicate, is_super = self.rows(
            "SELECT rolreplication, rolsuper FROM pg_roles WHERE rolname = current_user"
        )[0]
        if not may_replicate and not is_super and not self._is_member("rds_replication"):
            problems.append("the user may not replicate; run: ALTER ROLE ... REPLICATION")
        for table in tables:
            problems += self.table_problems(table)
        existing = self.slot(slot)
        if existing is not None:
            problems += slot_problems(slot, existing, self._connection.info.dbname)
        elif self._free_slots() <= 0:
            problems.append("no replication slot is free; raise max_replication_slots, or drop slots that are not used")
        published = self.published_tables(publication)
        unpublished = [table for table in tables if table not in (published or {})]
        if unpublished and not is_super and not self._may_publish(unpublished):
            listed = ", ".join(unpublished)
            how = "CREATE PUBLICATION {} FOR TABLE {}" if published is None else "ALTER PUBLICATION {} ADD TABLE {}"
            problems.append(f"the user may not publish {listed}; run as their owner: {how.format(publication, listed)}")
        return problems

    def table_problems(self, table: str) -> list[str]:
        """Return why a table cannot be read."""
        relation = self.relation(table)
        if relation is None:
            return [f"table {table} does not exist; create it, or correct its name"]
        problems = []
        if not relation.key_indexes:
            problems.append(f"table {table} has no primary key; add one, or set REPLICA IDENTITY USING INDEX")
        if relation.identity == "n":
            problems.append(f"table {table} has REPLICA IDENTITY NOTHING; set it to DEFAULT")
        if not self.rows("SELECT has_table_privilege(%s::oid, 'SELECT')", (relation.oid,))[0][0]:
            problems.append(f"the user may not read {table}; run: GRANT SELECT ON {table} TO ...")
        return problems

    def _is_member(self, role: str) -> bool:
        exists = self.rows("SELECT 1 FROM pg_roles WHERE rolname = %s", (role,))
        return bool(exists) and bool(self.rows("SELECT pg_has_role(%s, 'MEMBER')", (role,))[0][0])

    def _may_publish(self, tables: Sequence[str]) -> bool:
        owned = (
            "SELECT bool_and(pg_has_role(relowner, 'USAGE')) FROM pg_class c JOIN pg_namespace n "
            "ON n.oid = c.relnamespace WHERE n.nspname || '.' || c.relname = ANY (%s)"
        )
        may_create = "SELECT has_database_privilege(current_database(), 'CREATE')"
        return bool(self.rows(owned, (list(tables),))[0][0]) and bool(self.rows(may_create)[0][0])

    def _free_slots(self) -> int:
        count = "SELECT current_setting('max_replication_slots')::int - count(*) FROM pg_replication_slots"
        return int(self.rows(count)[0][0])


def slot_problems(name: str, slot: SlotInfo, database: str) -> list[str]:
    """Return why a slot cannot be used."""
    if slot.plugin != "pgoutput" or slot.database != database:
        return [f"slot {name} is one of {slot.plugin} in database {slot.database}; choose another name with slot="]
    if slot.wal_status == "lost":
        return [f"slot {name} is lost, since the server has removed what it needs; {START_OVER}"]
    return []


START_OVER = "drop the slot and reset the source, which reads all tables again"


def refuse(problems: Sequence[str]) -> None:
    """Raise an error for the first problem."""
    if problems:
        message, _, hint = problems[0].partition("; ")
        raise ConnectorError(message, hint=hint or None)
