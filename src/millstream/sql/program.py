"""The SQL of an app: statements become steps of its topology."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from millstream.dsl.handle import Handle
from millstream.dsl.sources import Sources
from millstream.errors import DefinitionError
from millstream.plan.connected import independent_parts, topics_of
from millstream.plan.node import Node, inputs
from millstream.sql.catalog import Catalog
from millstream.sql.compiled import parse_type
from millstream.sql.nodes import CreateAs, Drop, InsertValues
from millstream.sql.published import Published, PublishedPart, PublishedQuery, published_relation
from millstream.sql.translate.binding import bind
from millstream.sql.translate.reading import Readers
from millstream.sql.translate.statements import DefinedStatement, Statements


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
        self._steps: dict[str, frozenset[Node]] = {}
        """The steps that each query has added."""

    def execute(self, text: str, handles: Mapping[str, Handle[Any, Any]] | None = None, name: str | None = None) -> Any:
        """Execute statements and return the handle of the last query; ``handles`` are used by their names.

        ``name`` is that of the state of a SELECT.
        """
        self._statements.query_name = name or "query"
        for alias, handle in (handles or {}).items():
            self._bind(alias, handle)
        last: Handle[Any, Any] | None = None
        known = self._readers.steps
        for executed in self._statements.execute(text):
            if isinstance(executed.statement, InsertValues):
                raise DefinitionError(
                    "INSERT INTO … VALUES writes a record, it does not define an app",
                    hint="use app.producer() or `millstream produce`",
                )
            steps = self._readers.steps
            self._note(executed, text, steps - known)
            known = steps
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
            parts=tuple(self._parts()),
            types=dict(self.catalog.types),
            functions=dict(self.catalog.functions),
        )

    def _parts(self) -> Iterable[PublishedPart]:
        """Yield the parts of the app that read no topic, step or store of another."""
        steps = {name: _with_inputs(nodes & self._readers.steps) for name, nodes in self._steps.items()}
        for part in independent_parts(self._readers.ordered_steps):
            members = set(part)
            queries = tuple(name for name, nodes in steps.items() if not nodes.isdisjoint(members))
            others = members.difference(*(steps[name] for name in queries))
            names = sorted({node.name or f"a {node.verb.replace('_', ' ')}" for node in others})
            yield PublishedPart(topics=topics_of(part), queries=queries, others=tuple(names))

    def _note(self, executed: DefinedStatement, text: str, added: frozenset[Node]) -> None:
        """Remember the query of a statement and the steps that it has added."""
        statement, relation = executed.statement, executed.relation
        if isinstance(statement, Drop):
            self._queries.pop(statement.name, None)
            self._results.pop(statement.name, None)
            self._steps.pop(statement.name, None)
        if executed.handle is None or relation is None:
            return
        name = relation.name
        if isinstance(statement, CreateAs):
            self._results[name] = executed.handle._node
        else:
            name = executed.name or name
        source = text[statement.start : statement.end]
        self._steps[name] = added
        self._queries[name] = PublishedQuery(
            name=name, target=relation.name, statement=source, topics=topics_of((*added, executed.handle._node))
        )

    def _bind(self, name: str, handle: Handle[Any, Any]) -> None:
        relation, rows = bind(name, handle)
        existing = self.catalog.relations.get(relation.name)
        if existing is not None and relation.name not in self._readers.bound:
            raise DefinitionError(f"{name}= is already a {existing.kind.lower()} of SQL", hint="use another name")
        self.catalog.relations[relation.name] = relation
        self._readers.bound[relation.name] = rows


def _with_inputs(nodes: Iterable[Node]) -> set[Node]:
    """Return nodes and all that they depend on."""
    result: set[Node] = set()
    pending = list(nodes)
    while pending:
        node = pending.pop()
        if node not in result:
            result.add(node)
            pending.extend(inputs(node))
    return result
