"""The columns and unique keys of a table: created, extended, and compared with rows.

Names of columns come from records, so a name that the database cannot have rejects its record and stops nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from millstream.connect.protocols import Rejected
from millstream.connectors.sql_tables.database import Database, RefusedRowsError
from millstream.connectors.sql_tables.rows import ColumnKind, RowError, Shape, TableRow, check_fits, check_name, kind_of
from millstream.errors import ConnectorError
from millstream.foundation.text import error_text, printable, shown

if TYPE_CHECKING:
    from millstream.connectors.sql_tables.table import SqlTable

MAX_COLUMNS = 1_000
"""A table is not extended further, however many names the records have."""


class TableLayout:
    """What a table has, and what rows need of it."""

    def __init__(self, settings: SqlTable, database: Database) -> None:
        self._settings = settings
        self._database = database
        self._is_keyed = settings.mode == "upsert"
        self._read()

    def _read(self) -> None:
        self.columns = self._database.columns(self._settings.table)
        self._names = {self._folded(name): name for name in self.columns}
        self._keys = self._database.unique_keys(self._settings.table) if self.columns and self._is_keyed else set()
        self._shapes: set[Shape] = set()
        """Of rows that were accepted: another row with the same columns and types is, too."""

    def fitting(self, rows: Sequence[TableRow], rejected: list[Rejected]) -> list[TableRow]:
        """Return the rows that the table can hold, with their values encoded; reject the others."""
        shapes = [row.shape() for row in rows]
        if self._shapes.issuperset(shapes):
            accepted = list(rows)
        else:
            known = {id(row) for row, shape in zip(rows, shapes, strict=True) if shape in self._shapes}
            checked = self._extended([row for row in rows if id(row) not in known], rejected)
            known |= {id(row) for row in checked if self._accepts(self._check, row, rejected)}
            accepted = [row for row in rows if id(row) in known]
            self._shapes = {shape for row in accepted if (shape := row.shape()) is not None}
        return [row for row in accepted if self._accepts(self._encode, row, rejected)]

    def _accepts(self, check: Callable[[TableRow], None], row: TableRow, rejected: list[Rejected]) -> bool:
        try:
            check(row)
        except (RowError, TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError) as error:
            rejected.append(Rejected(row.record, printable(error_text(error))[:300]))
            return False
        return True

    def _extended(self, rows: Sequence[TableRow], rejected: list[Rejected]) -> list[TableRow]:
        """Create the table, or add columns that it lacks; a column is known once it has a value."""
        settings, is_new = self._settings, not self.columns
        if is_new and rows and not settings.create:
            raise ConnectorError(
                f"table {settings.table!r} does not exist", hint="create it, or leave create=False out"
            )
        kinds: dict[str, ColumnKind] = {}
        keys: dict[str, None] = {}
        named: list[TableRow] = []
        if is_new or settings.evolve:

            def claim(row: TableRow) -> None:
                self._claim_names(row, kinds, keys if is_new else None)

            named = [row for row in rows if self._accepts(claim, row, rejected)]
        else:
            named = list(rows)
        refused = self._create(kinds, list(keys)) if is_new and kinds else self._add(kinds)
        if kinds:
            self._read()

        def check_refused(row: TableRow) -> None:
            for name in refused.keys() & row.columns.keys():
                raise RowError(f"the database refuses a column {shown(name):.80}: {refused[name]}")

        return [row for row in named if self._accepts(check_refused, row, rejected)]

    def _add(self, kinds: Mapping[str, ColumnKind]) -> dict[str, str]:
        """Add columns to the table; return why some are refused."""
        refused: dict[str, str] = {}
        for name, kind in kinds.items():
            declared = f"{self._database.listed([name])} {self._type(name, kind)}"
            try:
                self._database.execute(
                    f"ALTER TABLE {self._database.quoted(self._settings.table)} ADD COLUMN {declared}"
                )
            except RefusedRowsError as error:
                refused[name] = str(error)
        return refused

    def _claim_names(self, row: TableRow, kinds: dict[str, ColumnKind], keys: dict[str, None] | None) -> None:
        """Add the columns that a row needs to ``kinds``, and its key to ``keys`` if it is the first of a new table."""
        if keys is not None and self._is_keyed and keys and keys.keys() != row.keys.keys():
            raise RowError(f"its key has the fields {_listed(row.keys)}, and the key of the table is {_listed(keys)}")
        new: dict[str, ColumnKind] = {}
        names: dict[str, str] = {}
        for name, value in row.columns.items():
            kind = kind_of(value)
            if kind is None or name in self.columns:
                continue
            if name not in kinds:
                folded = self._folded(name)
                self._check_new(name, folded, self._names.get(folded, names.get(folded)))
                names[folded] = name
                if len(self.columns) + len(kinds) + len(names) > MAX_COLUMNS:
                    raise RowError(f"the table would have more than {MAX_COLUMNS:,} columns")
            new[name] = _wider(kinds.get(name), kind)
        kinds.update(new)
        self._names.update(names)
        if keys is not None:
            keys.update(dict.fromkeys(row.keys))

    def _check_new(self, name: str, folded: str, same: str | None) -> None:
        check_name(name, self._database.longest_name)
        if folded in self._database.reserved_names:
            raise RowError(f"the database has a column {name!r} of its own; rename the field")
        if same is not None:
            raise RowError(f"fields {same!r} and {name!r} differ in case only, and are the same column; rename one")

    def _folded(self, name: str) -> str:
        """Return what the database compares: SQLite and DuckDB ignore the case of ASCII letters."""
        return name if self._database.has_case else "".join(c.lower() if c.isascii() else c for c in name)

    def _create(self, kinds: Mapping[str, ColumnKind], keys: Sequence[str]) -> dict[str, str]:
        """Create the table with as many of the columns as the database takes; return why some are refused."""
        primary = keys if self._is_keyed else list(kinds)[:1]
        try:
            self._create_with(kinds, keys)
        except RefusedRowsError:
            try:
                self._create_with({name: kinds[name] for name in primary}, keys)
            except RefusedRowsError as error:
                return dict.fromkeys(primary, str(error))
            return self._add({name: kind for name, kind in kinds.items() if name not in primary})
        return {}

    def _create_with(self, kinds: Mapping[str, ColumnKind], keys: Sequence[str]) -> None:
        database = self._database
        declared = [
            f"{database.listed([name])} {self._type(name, kind, is_key=self._is_keyed and name in keys)}"
            for name, kind in kinds.items()
        ]
        if self._is_keyed:
            declared.append(f"PRIMARY KEY ({database.listed(keys)})")
        database.execute(f"CREATE TABLE IF NOT EXISTS {database.quoted(self._settings.table)} ({', '.join(declared)})")

    def _type(self, name: str, kind: ColumnKind, *, is_key: bool = False) -> str:
        database = self._database
        default = database.key_text if is_key and kind in ("text", "json") else database.types[kind]
        return self._settings.columns.get(name, default)

    def _encode(self, row: TableRow) -> None:
        row.encode(self.columns)

    def _check(self, row: TableRow) -> None:
        """Check that the columns can hold a row."""
        for name, value in row.columns.items():
            if value is not None and name not in self.columns:
                raise RowError(f"the table has no column {shown(name):.80}")
            if value is not None:
                check_fits(name, self.columns[name], value)
        if self._keys and frozenset(row.keys) not in self._keys:
            keys = " or ".join(sorted(map(_listed, self._keys)))
            raise RowError(f"its key has the fields {_listed(row.keys)}, and the key of the table is {keys}")


def _wider(known: ColumnKind | None, new: ColumnKind) -> ColumnKind:
    if known is None or known == new:
        return new
    return "number" if {known, new} == {"integer", "number"} else known  # the other values are rejected


def _listed(names: Sequence[str] | Mapping[str, object] | frozenset[str]) -> str:
    return ", ".join(f"{shown(name):.80}" for name in sorted(names))
