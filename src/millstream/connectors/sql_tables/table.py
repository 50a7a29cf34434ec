"""A table sink: creates and extends its table, and writes each batch in one transaction with its number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

import msgspec

from millstream.connect.protocols import ConnectorContext, Guarantee, RecordsRejectedError, Rejected, SinkBatch
from millstream.connectors.lineage import OtherLineage, check_choice, other_lineage
from millstream.connectors.sql_tables.database import MARKERS, Database, RefusedRowsError, RollbackError, refusal_of
from millstream.connectors.sql_tables.layout import TableLayout
from millstream.connectors.sql_tables.rows import RowError, TableRow, check_name
from millstream.errors import DefinitionError
from millstream.foundation.text import error_text, printable
from millstream.records import Record

Mode: TypeAlias = Literal["upsert", "append"]
_LONGEST_NAME = 1_000


class SqlTable:
    """The settings of a table sink, and how it opens.

    ``upsert`` keeps the last record of each key as its row and deletes it on a tombstone; ``append`` adds a row per
    record. A missing table is created and missing columns are added; none is dropped or changed. ``columns`` chooses
    types. A column that a record lacks becomes null.
    """

    guarantee: Guarantee = "exactly once"

    def __init__(
        self,
        table: str,
        *,
        key: str = "key",
        mode: Mode = "upsert",
        columns: Mapping[str, str] | None = None,
        create: bool = True,
        evolve: bool = True,
        on_other_lineage: OtherLineage = "refuse",
    ) -> None:
        check_choice("mode", mode, ("upsert", "append"))
        check_choice("on_other_lineage", on_other_lineage, ("refuse", "adopt"))
        for setting, name in (*(("table", part) for part in table.split(".")), ("key", key)):
            try:
                check_name(name, _LONGEST_NAME)
            except RowError:
                value = table if setting == "table" else key
                raise DefinitionError(
                    f"{setting}={value!r:.80} is not a valid name",
                    hint="write TABLE or SCHEMA.TABLE" if setting == "table" else "write the name of a column",
                ) from None
        self.table = table
        self.key = key
        self.mode: Mode = mode
        self.columns = dict(columns or {})
        self.create = create
        self.evolve = evolve
        self.on_other_lineage: OtherLineage = on_other_lineage

    def connect(self) -> Database:
        """Connect to the database."""
        raise NotImplementedError

    def open(self, context: ConnectorContext, /) -> TableWriter:
        """Connect, and create the table of markers."""
        database = self.connect()
        try:
            return TableWriter(self, database, f"{context.app}.{context.name}")
        except BaseException:
            database.close()
            raise

    def check(self) -> Sequence[str]:
        """Connect, try statements without rows or that are rolled back, and say what is missing."""
        database = self.connect()
        try:
            return table_problems(self, database)
        finally:
            database.close()


def table_problems(settings: SqlTable, database: Database) -> list[str]:
    """Return which rights are missing, and how the table differs from what the sink needs, a sentence each."""
    name, columns, problems = settings.table, database.columns(settings.table), []
    if not columns and not settings.create:
        return [f"table {name!r} does not exist; create it, or leave create=False out"]
    if missing := [column for column in settings.columns if columns and column not in columns and not settings.evolve]:
        problems.append(f"table {name!r} has no column {missing[0]!r}; add it, or leave evolve=False out")
    if (not columns or not database.columns(MARKERS)) and (reason := refusal_of(database, database.creations())):
        problems.append(f"tables cannot be created: {reason}; grant the right, or create {name!r} and {MARKERS!r}")
    is_keyed = settings.mode == "upsert" and settings.key in columns
    if columns and (reason := refusal_of(database, database.trials(name, [settings.key] if is_keyed else [], columns))):
        problems.append(f"table {name!r} cannot be written to: {reason}; check its key and your rights")
    return problems


class TableWriter:
    """Writes batches to a table over one connection."""

    def __init__(self, settings: SqlTable, database: Database, sink: str) -> None:
        self._settings = settings
        self._database = database
        self._sink = sink
        names = {"sink": database.key_text, "lineage": database.types["text"], "batch": database.types["integer"]}
        columns = ", ".join(f"{name} {kind} NOT NULL" for name, kind in names.items())
        database.execute(f"CREATE TABLE IF NOT EXISTS {MARKERS} ({columns}, PRIMARY KEY (sink))")
        self._layout = TableLayout(settings, database)

    def close(self) -> None:
        self._database.close()

    def write(self, batch: SinkBatch) -> Sequence[Rejected]:
        """Write all records and the number of the batch in one transaction, unless that was done before."""
        rejected: list[Rejected] = []
        rows = [row for record in batch.records if (row := self._row(record, rejected)) is not None]
        rows = self._layout.fitting(rows, rejected)
        if rejected:
            raise RecordsRejectedError(rejected)
        try:
            with self._database.transaction():
                if self._claim(batch):
                    self._apply(rows)
        except RefusedRowsError:
            rejected = self._refused(rows) or self._refused(rows, is_together=True)
            raise RecordsRejectedError(rejected) from None
        return []

    def _row(self, record: Record[Any, Any], rejected: list[Rejected]) -> TableRow | None:
        try:
            row = TableRow(record, self._settings.key)
            if self._settings.mode == "upsert":
                if not row.keys:
                    raise RowError("it has no key, which a row needs")
                if None in row.keys.values():
                    raise RowError("a field of its key is null")
            return row
        except (RowError, TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError) as error:
            rejected.append(Rejected(record, error_text(error)))
            return None

    def _claim(self, batch: SinkBatch) -> bool:
        """Store the number of the batch; return False if the batch was written before."""
        marker = self._database.marker(self._sink)
        if marker is not None:
            lineage, number = marker
            if lineage != batch.lineage and self._settings.on_other_lineage == "refuse":
                raise other_lineage(self._sink, lineage, batch.lineage)
            if lineage == batch.lineage and number >= batch.number:
                return False
        self._database.set_marker(self._sink, batch.lineage, batch.number)
        return True

    def _apply(self, rows: Sequence[TableRow]) -> None:
        table, columns = self._settings.table, list(self._layout.columns)
        if not rows:
            return
        if self._settings.mode == "append":
            self._database.insert(table, columns, [row.values for row in rows])
            return
        latest = {row.key: row for row in rows}
        for names in dict.fromkeys(names for names, _ in latest):  # usually one; a table may have several unique keys
            of_key = [row for row in latest.values() if row.key[0] == names]
            deletes = [row.key[1] for row in of_key if row.record.value is None]
            upserts = [row.values for row in of_key if row.record.value is not None]
            if deletes and columns:
                self._database.delete(table, names, deletes)
            if upserts:
                self._database.upsert(table, names, columns, upserts)

    def _refused(
        self, rows: Sequence[TableRow], accepted: Sequence[TableRow] = (), *, is_together: bool = False
    ) -> list[Rejected]:
        """Return the rows that the database refuses by themselves, found by halving; nothing is written.

        With ``is_together``, those that it refuses after the rows before them, such as equal values of a unique column.
        """
        try:
            with self._database.transaction():
                self._apply([*accepted, *rows])
                raise RollbackError
        except RollbackError:
            return []
        except RefusedRowsError as error:
            if len(rows) == 1:
                return [Rejected(rows[0].record, printable(error_text(error))[:300])]
        middle = len(rows) // 2
        first = self._refused(rows[:middle], accepted, is_together=is_together)
        if is_together:
            refused = {id(rejected.record) for rejected in first}
            accepted = [*accepted, *(row for row in rows[:middle] if id(row.record) not in refused)]
        return [*first, *self._refused(rows[middle:], accepted, is_together=is_together)]
