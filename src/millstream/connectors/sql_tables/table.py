"""A table sink: creates and extends its table, and writes each batch in one transaction with its number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

from millstream.connect.protocols import ConnectorContext, Guarantee, RecordsRejectedError, Rejected, SinkBatch
from millstream.connectors.lineage import OtherLineage, check_choice, other_lineage
from millstream.connectors.sql_tables.database import (
    MARKERS,
    Database,
    RefusedRowsError,
    RollbackError,
    Row,
    refusal_of,
)
from millstream.connectors.sql_tables.rows import (
    ColumnKind,
    RowError,
    as_json,
    check_fits,
    key_columns,
    kind_of,
    plain,
    value_columns,
)
from millstream.errors import ConnectorError
from millstream.records import Record

Mode: TypeAlias = Literal["upsert", "append"]


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
        self._columns = database.columns(settings.table)

    def close(self) -> None:
        self._database.close()

    def write(self, batch: SinkBatch) -> Sequence[Rejected]:
        """Write all records and the number of the batch in one transaction, unless that was done before."""
        rejected: list[Rejected] = []
        rows = [row for record in batch.records if (row := self._row(record, rejected)) is not None]
        self._extend(rows)
        rows = self._fitting(rows, rejected)
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

    def _row(self, record: Record[Any, Any], rejected: list[Rejected]) -> _Row | None:
        try:
            keys = key_columns(record, self._settings.key)
            if not keys and self._settings.mode == "upsert":
                raise RowError("it has no key, which a row needs")
            return _Row(record, keys, value_columns(record))
        except (RowError, TypeError) as error:
            rejected.append(Rejected(record, str(error)))
            return None

    def _extend(self, rows: Sequence[_Row]) -> None:
        """Create the table, or add columns that it lacks; a column is known once it has a value."""
        settings, database = self._settings, self._database
        is_new = not self._columns
        if is_new and rows and not settings.create:
            raise ConnectorError(
                f"table {settings.table!r} does not exist", hint="create it, or leave create=False out"
            )
        kinds: dict[str, ColumnKind] = {}
        keys: dict[str, None] = {}
        for row in rows:
            keys.update(dict.fromkeys(row.keys))
            for name, value in row.columns.items():
                kind = _safe_kind(value)
                if name not in self._columns and kind is not None:
                    kinds[name] = _wider(kinds.get(name), kind)
        if is_new and kinds:
            self._create(kinds, list(keys))
        elif kinds and settings.evolve:
            for name, kind in kinds.items():
                declared = f"{database.listed([name])} {self._type(name, kind, is_key=False)}"
                database.execute(f"ALTER TABLE {database.quoted(settings.table)} ADD COLUMN {declared}")
        if kinds and (is_new or settings.evolve):
            self._columns = database.columns(settings.table)

    def _create(self, kinds: Mapping[str, ColumnKind], keys: Sequence[str]) -> None:
        settings, database = self._settings, self._database
        is_keyed = settings.mode == "upsert"
        declared = [
            f"{database.listed([name])} {self._type(name, kind, is_key=is_keyed and name in keys)}"
            for name, kind in kinds.items()
        ]
        if is_keyed:
            declared.append(f"PRIMARY KEY ({database.listed(keys)})")
        database.execute(f"CREATE TABLE IF NOT EXISTS {database.quoted(settings.table)} ({', '.join(declared)})")

    def _type(self, name: str, kind: ColumnKind, *, is_key: bool) -> str:
        default = self._database.key_text if is_key and kind in ("text", "json") else self._database.types[kind]
        return self._settings.columns.get(name, default)

    def _fitting(self, rows: Sequence[_Row], rejected: list[Rejected]) -> list[_Row]:
        """Return the rows whose values the columns can hold; reject the others."""
        fitting: list[_Row] = []
        for row in rows:
            try:
                for name, value in row.columns.items():
                    if value is not None and name not in self._columns:
                        raise RowError(f"the table has no column {name!r}")
                    if value is not None:
                        check_fits(name, self._columns[name], value)
                fitting.append(row)
            except RowError as error:
                rejected.append(Rejected(row.record, str(error)))
        return fitting

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

    def _apply(self, rows: Sequence[_Row]) -> None:
        if not rows:
            return
        table, columns, kinds = self._settings.table, list(self._columns), self._columns
        if self._settings.mode == "append":
            self._database.insert(table, columns, [row.values(kinds) for row in rows])
            return
        keys = list(rows[0].keys)
        latest = {tuple(plain(row.keys.get(key)) for key in keys): row for row in rows}
        upserts = [row.values(kinds) for row in latest.values() if row.record.value is not None]
        deletes = [key for key, row in latest.items() if row.record.value is None]
        if deletes and self._columns:
            self._database.delete(table, keys, deletes)
        if upserts:
            self._database.upsert(table, keys, columns, upserts)

    def _refused(
        self, rows: Sequence[_Row], accepted: Sequence[_Row] = (), *, is_together: bool = False
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
                return [Rejected(rows[0].record, str(error))]
        middle = len(rows) // 2
        first = self._refused(rows[:middle], accepted, is_together=is_together)
        if is_together:
            refused = {id(rejected.record) for rejected in first}
            accepted = [*accepted, *(row for row in rows[:middle] if id(row.record) not in refused)]
        return [*first, *self._refused(rows[middle:], accepted, is_together=is_together)]


class _Row:
    """A record as columns."""

    def __init__(self, record: Record[Any, Any], keys: dict[str, Any], value: dict[str, Any]) -> None:
        self.record = record
        self.keys = keys
        self.columns = {**value, **keys}

    def values(self, columns: Mapping[str, ColumnKind]) -> Row:
        """Return the values of columns as a driver takes them."""
        get = self.columns.get
        return tuple([as_json(get(name)) if kind == "json" else plain(get(name)) for name, kind in columns.items()])


def _wider(known: ColumnKind | None, new: ColumnKind) -> ColumnKind:
    if known is None or known == new:
        return new
    return "number" if {known, new} == {"integer", "number"} else known  # the other values are rejected


def _safe_kind(value: Any) -> ColumnKind | None:
    try:
        return kind_of(value)
    except RowError:  # the row is rejected later
        return None
