"""The SQL of an app: statements become steps of its topology."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from millstream.dsl.handle import Handle
from millstream.dsl.sources import Sources
from millstream.errors import DefinitionError
from millstream.plan.node import Node
from millstream.sql.catalog import Catalog
from millstream.sql.compiled import parse_type
from millstream.sql.nodes import CreateAs, Drop, InsertValues
from millstream.sql.published import Published, PublishedQuery, published_relation
from millstream.sql.translate.binding import bind
from millstream.sql.translate.reading import Readers
from millstream.sql.translate.statements import Executed, Statements


class SqlProgram:
    """Executes statements in the topology of one app; later statements see what earlier ones have defined."""

    def __init__(self, sources: Sources) -> None:
        self.catalog = Catalog()
        self._readers = Readers(sources)
        self._statements = Statements(self.catalog, lambda: self._readers)
        self._statements.allows_code = True
        self._statements.ends_queries = True
        self._queries: dict[str, PublishedQuery] = {}
        self._results: dict[str, Node] = {}
        """The last step of the query of each stream and table."""

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
            self._note(executed, text)
            last = executed.handle or last
        return last

    @property
    def logs_errors(self) -> bool:
        """Whether ``SET`` asks for a processing log."""
        setting = self.catalog.settings.get("ksql.logging.processing.topic.auto.create", "")
        return setting.lower() == "true"

    def define(self, target: Any, name: str, takes: Sequence[str] | None, returns: str | None) -> None:
        """Make Python code a function of SQL; types are written as in SQL, those not given are its annotations."""
        types = None if takes is None else [(parse_type(text), False) for text in takes]
        self._statements.define(
            target, name.upper(), takes=types, returns=None if returns is None else parse_type(returns)
        )

    def published(self) -> Published:
        """Return what has been defined so far as data; streams and tables of Python are left out."""
        relations = (
            relation for relation in self.catalog.relations.values() if relation.name not in self._readers.bound
        )
        return Published(
            relations=tuple(published_relation(each, self._results.get(each.name)) for each in relations),
            queries=tuple(self._queries.values()),
            types=dict(self.catalog.types),
            functions=dict(self.catalog.functions),
        )

    def _note(self, executed: Executed, text: str) -> None:
        """Remember the query of a statement."""
        statement, relation = executed.statement, executed.relation
        if isinstance(statement, Drop):
            self._queries.pop(statement.name, None)
            self._results.pop(statement.name, None)
        if executed.handle is None or relation is None:
            return
        name = relation.name
        if isinstance(statement, CreateAs):
            self._results[name] = executed.handle._node
        else:
            name = executed.name or name
        source = text[statement.start : statement.end]
        self._queries[name] = PublishedQuery(name=name, target=relation.name, statement=source)

    def _bind(self, name: str, handle: Handle[Any, Any]) -> None:
        relation, rows = bind(name, handle)
        existing = self.catalog.relations.get(relation.name)
        if existing is not None and relation.name not in self._readers.bound:
            raise DefinitionError(f"{name}= is already a {existing.kind.lower()} of SQL", hint="use another name")
        self.catalog.relations[relation.name] = relation
        self._readers.bound[relation.name] = rows
