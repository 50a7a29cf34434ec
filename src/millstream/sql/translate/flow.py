"""A stream or table inside a query: its handle, and where its columns are."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from millstream.dsl.stream import Stream
from millstream.dsl.table import Table
from millstream.plan.select import Select, SelectRekeyed
from millstream.plan.tables import TableFilter, TableMapValues
from millstream.serdes import Serde
from millstream.sql.catalog import Columns, SourceWindow
from millstream.sql.compiled import Scope, scope_codes
from millstream.sql.generate import Generator
from millstream.sql.selection import SqlFunction, SqlSelection


class QueryFlow(NamedTuple):
    """Records inside a query: columns with their places, and which columns are the key."""

    handle: Any
    scope: Scope
    keys: tuple[tuple[str, ...], ...]
    """For each column of the key the columns and expressions that are equal to it, the preferred one first."""
    key_types: tuple[Any, ...]
    window: SourceWindow | None = None
    key_serde: Serde | None = None
    query: str = ""
    """The name of the query, for messages."""

    @property
    def is_table(self) -> bool:
        return isinstance(self.handle, Table)

    @property
    def values(self) -> Scope:
        """The columns of the value."""
        return tuple(column for column in self.scope if column[2] == "value")

    def generator(self) -> Generator:
        """Return what types and generates expressions over the columns."""
        return Generator(scope_codes(self.scope))

    def selected(self, selection: SqlSelection, key: Serde | None = None) -> Any:
        """Return the handle after a selection of a stream."""
        kind = Select if selection.key is None else SelectRekeyed
        selection = self.named(selection)
        return Stream(self.handle._draft, kind(source=self.handle._node, selection=selection, key=key))

    def named(self, selection: SqlSelection) -> SqlSelection:
        """Return a selection that knows its query."""
        return msgspec.structs.replace(selection, query=self.query)

    def filtered(self, where: str) -> QueryFlow:
        """Return the flow with a condition."""
        selection = SqlSelection(scope=self.scope, where=where)
        if not self.is_table:
            return self._replace(handle=self.selected(selection))
        function = SqlFunction(self.named(selection), "where")
        node = TableFilter(source=self.handle._node, predicate=function, needs_old=True)
        return self._replace(handle=Table(self.handle._draft, node))

    def projected(self, columns: Columns, expressions: dict[str, str], name: str | None = None) -> Any:
        """Return the handle with new columns; the key stays."""
        selection = SqlSelection(
            scope=self.scope,
            columns=tuple(expressions.items()),
            types=tuple(str(columns[column]) for column in expressions),
        )
        if not self.is_table:
            return self.selected(selection)
        mapper = SqlFunction(self.named(selection), "value")
        node = TableMapValues(source=self.handle._node, mapper=mapper, name=name, stored=name is not None)
        return Table(self.handle._draft, node)
