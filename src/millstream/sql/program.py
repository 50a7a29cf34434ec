"""The SQL of an app: statements become steps of its topology."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from millstream.dsl.handle import Handle
from millstream.dsl.sources import Sources
from millstream.errors import DefinitionError
from millstream.sql.catalog import Catalog
from millstream.sql.nodes import InsertValues
from millstream.sql.translate.binding import bind
from millstream.sql.translate.reading import Readers
from millstream.sql.translate.statements import Statements


class SqlProgram:
    """Executes statements in the topology of one app; later statements see what earlier ones have defined."""

    def __init__(self, sources: Sources) -> None:
        self.catalog = Catalog()
        self._readers = Readers(sources)
        self._statements = Statements(self.catalog, lambda: self._readers)

    def execute(self, text: str, handles: Mapping[str, Handle[Any, Any]] | None = None, name: str | None = None) -> Any:
        """Execute statements and return the handle of the last query; ``handles`` are used by their names.

        ``name`` is that of the state of a SELECT.
        """
        self._statements.query_name = name or "query"
        for alias, handle in (handles or {}).items():
            self._bind(alias, handle)
        last: Handle[Any, Any] | None = None
        for executed in self._statements.execute(text):
            if isinstance(executed.statement, InsertValues):
                raise DefinitionError(
                    "INSERT INTO … VALUES writes a record, it does not define an app",
                    hint="use app.producer() or `millstream produce`",
                )
            last = executed.handle or last
        return last

    def _bind(self, name: str, handle: Handle[Any, Any]) -> None:
        relation, rows = bind(name, handle)
        existing = self.catalog.relations.get(relation.name)
        if existing is not None and relation.name not in self._readers.bound:
            raise DefinitionError(f"{name}= is already a {existing.kind.lower()} of SQL", hint="use another name")
        self.catalog.relations[relation.name] = relation
        self._readers.bound[relation.name] = rows
