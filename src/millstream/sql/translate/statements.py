"""Execute statements: definitions change the catalog, queries become part of the topology."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import singledispatchmethod
from typing import Any, NamedTuple

import msgspec

from millstream.dsl.handle import Handle
from millstream.errors import DefinitionError, SqlError
from millstream.foundation.user_code import resolve
from millstream.plan.node import Node
from millstream.sql.aggregates import AGGREGATES
from millstream.sql.catalog import Catalog, Format, Relation
from millstream.sql.functions.registry import FUNCTIONS
from millstream.sql.functions.user import declare
from millstream.sql.nodes import (
    Alter,
    AnyStatement,
    CreateAs,
    CreateFunction,
    CreateSource,
    CreateType,
    Drop,
    DropFunction,
    DropType,
    InsertSelect,
    InsertValues,
    Query,
    Select,
    Setting,
)
from millstream.sql.parser.statements import parse
from millstream.sql.problems import Problem
from millstream.sql.properties import With, check_format
from millstream.sql.tokens import error_at
from millstream.sql.translate.defining import relation_of
from millstream.sql.translate.inferring import needs_registry
from millstream.sql.translate.inserting import Insertion, insertion_of
from millstream.sql.translate.query import QueryTranslator, uses_aggregates
from millstream.sql.translate.reading import Readers
from millstream.sql.translate.result import DefinedResult
from millstream.sql.translate.unions import is_stateful, source_names
from millstream.sql.translate.writing import check_insert, write
from millstream.sql.types import Type


class DefinedStatement(NamedTuple):
    """A statement and what it has defined."""

    statement: AnyStatement
    handle: Handle[Any, Any] | None = None
    relation: Relation | None = None
    insertion: Insertion | None = None
    name: str | None = None
    """The name of a query that inserts."""


@contextmanager
def located(text: str, statement: AnyStatement) -> Iterator[None]:
    """Let errors of a statement say where in the text they are."""
    try:
        yield
    except Problem as problem:
        raise error_at(text, problem.offset, problem.message, problem.hint) from None
    except SqlError:
        raise
    except DefinitionError as error:  # of a step that the statement defines
        raise error_at(text, statement.start, error.message, error.hint) from error


class Statements:
    """Executes statements one after the other."""

    def __init__(self, catalog: Catalog, readers: Callable[[], Readers]) -> None:
        """``readers`` returns the sources of the app that the next query becomes a part of."""
        self.catalog = catalog
        self._readers = readers
        self.query_name = "query"
        """The name of the next SELECT, for its state."""
        self._inserts: dict[str, int] = {}
        self.ends_queries = False
        """Whether CREATE OR REPLACE and DROP remove the steps of a query: where all statements are one app."""
        self._steps: dict[str, tuple[Readers, frozenset[Node]]] = {}
        """The steps of the query of each stream and table."""
        self.allows_code = False
        """Whether CREATE FUNCTION can name Python code: in files and in Python, never in what a network sends."""

    def execute(self, text: str) -> Iterator[DefinedStatement]:
        """Execute the statements of a text; an error says where in the text it is."""
        catalog = self.catalog
        statements = parse(text, catalog.types, catalog.variables, catalog.functions)
        while True:
            statement = next(statements, None)
            if statement is None:
                return
            with located(text, statement):
                executed = self.apply(statement)
            yield executed

    def apply(self, statement: AnyStatement) -> DefinedStatement:
        """Execute one statement."""
        return self._execute(statement)

    @singledispatchmethod
    def _execute(self, statement: AnyStatement) -> DefinedStatement:
        verb = type(statement).__name__.upper()
        hint = "remove it; `millstream sql plan FILE` shows what a file defines"
        raise Problem(statement.start, f"{verb} cannot be used in the definition of an app", hint)

    # Definitions

    @_execute.register
    def _create(self, statement: CreateSource) -> DefinedStatement:
        if self._exists(statement):
            return DefinedStatement(statement)
        relation = relation_of(statement, self.catalog)
        self._check_replaced(statement, relation)
        self.catalog.relations[statement.name] = relation
        return DefinedStatement(statement, relation=relation)

    def _exists(self, statement: CreateSource | CreateAs) -> bool:
        """Whether a statement has nothing to do; raise if its name is taken."""
        existing = self.catalog.relations.get(statement.name)
        if getattr(statement, "is_source", False) and statement.replaces:
            raise Problem(statement.start, f"{statement.name} is a read-only source and cannot be replaced")
        if existing is None or (statement.if_missing and not statement.replaces):
            return existing is not None
        if not statement.replaces:
            raise Problem(
                statement.start, f"{existing.kind.lower()} {statement.name} exists already", "use CREATE OR REPLACE"
            )
        if existing.is_read_only:
            raise Problem(statement.start, f"{statement.name} is a read-only source and cannot be replaced")
        if existing.kind != statement.kind:
            raise Problem(statement.start, f"{statement.name} is a {existing.kind.lower()}", "DROP it first")
        return False

    @_execute.register
    def _create_type(self, statement: CreateType) -> DefinedStatement:
        if statement.name in self.catalog.types and not statement.if_missing:
            raise Problem(statement.start, f"type {statement.name} exists already", "DROP TYPE it first")
        self.catalog.types.setdefault(statement.name, statement.type)
        return DefinedStatement(statement)

    @_execute.register
    def _drop_type(self, statement: DropType) -> DefinedStatement:
        if self.catalog.types.pop(statement.name, None) is None and not statement.if_exists:
            raise Problem(statement.start, f"type {statement.name} is unknown", "use IF EXISTS")
        return DefinedStatement(statement)

    @_execute.register
    def _create_function(self, statement: CreateFunction) -> DefinedStatement:
        if not self.allows_code:
            raise Problem(statement.start, "CREATE FUNCTION names Python code", "use it in a file, or app.function")
        if statement.name in self.catalog.functions and not statement.replaces:
            if statement.if_missing:
                return DefinedStatement(statement)
            raise Problem(statement.start, f"function {statement.name} exists already", "use CREATE OR REPLACE")
        target = resolve(statement.reference)
        self.define(target, statement.name, takes=statement.parameters, returns=statement.result)
        return DefinedStatement(statement)

    def define(
        self, target: Any, name: str, *, takes: Iterable[tuple[Type, bool]] | None = None, returns: Type | None = None
    ) -> None:
        """Make Python code a function of SQL."""
        if name in FUNCTIONS or name in AGGREGATES:
            raise DefinitionError(f"{name} is a function of SQL already", hint="use another name")
        self.catalog.functions[name] = str(declare(target, name, takes=takes, returns=returns))

    @_execute.register
    def _drop_function(self, statement: DropFunction) -> DefinedStatement:
        if self.catalog.functions.pop(statement.name, None) is None and not statement.if_exists:
            raise Problem(statement.start, f"function {statement.name} is unknown", "use IF EXISTS")
        return DefinedStatement(statement)

    @_execute.register
    def _drop(self, statement: Drop) -> DefinedStatement:
        if statement.if_exists and statement.name not in self.catalog.relations:
            return DefinedStatement(statement)
        relation = self.catalog.find(statement.name, statement.start)
        if relation.kind != statement.kind:
            raise Problem(statement.start, f"{statement.name} is a {relation.kind.lower()}", f"DROP {relation.kind}")
        if relation.is_read_only and statement.deletes_topic:
            raise Problem(
                statement.start, f"{statement.name} is read-only: its topic is not deleted", "omit DELETE TOPIC"
            )
        del self.catalog.relations[statement.name]
        self._end_query(statement.name)
        return DefinedStatement(statement, relation=relation)

    def _end_query(self, name: str) -> None:
        """Remove the steps of the query that writes a stream or table; those that others read stay."""
        steps = self._steps.pop(name, None)
        if steps is not None and self.ends_queries:
            readers, nodes = steps
            readers.remove(nodes)

    @_execute.register
    def _alter(self, statement: Alter) -> DefinedStatement:
        relation = self.catalog.find(statement.name, statement.start)
        if relation.is_read_only or relation.kind != statement.kind:
            problem = "is read-only" if relation.is_read_only else f"is a {relation.kind.lower()}"
            raise Problem(statement.start, f"{statement.name} {problem} and cannot be altered so")
        if relation.query is not None:
            raise Problem(statement.start, f"{statement.name} is the result of a query", "use CREATE OR REPLACE")
        values = dict(relation.values)
        for column in statement.columns:
            if column.name in values or column.name in relation.keys:
                raise Problem(column.offset, f"column {column.name} exists already")
            values[column.name] = column.type
        check_format(relation.value_format, values, statement.start, "value")
        self.catalog.relations[statement.name] = msgspec.structs.replace(relation, values=values)
        return DefinedStatement(statement)

    @_execute.register
    def _set(self, statement: Setting) -> DefinedStatement:
        if statement.name.startswith("ksql.schema.registry.") and not self.allows_code:
            raise Problem(statement.start, "the schema registry cannot be changed here", "use a file or app.sql")
        target = self.catalog.settings if statement.verb.endswith("SET") else self.catalog.variables
        if statement.value is None:
            target.pop(statement.name, None)
        else:
            target[statement.name] = statement.value
        return DefinedStatement(statement)

    @_execute.register
    def _insert_values(self, statement: InsertValues) -> DefinedStatement:
        relation = self.catalog.find(statement.target, statement.start)
        return DefinedStatement(statement, relation=relation, insertion=insertion_of(statement, relation))

    # Queries

    @_execute.register
    def _create_as(self, statement: CreateAs) -> DefinedStatement:
        if self._exists(statement):
            return DefinedStatement(statement)
        properties = With(statement.properties, self.catalog.settings, statement.start, is_source=False)
        query = statement.query
        if statement.kind == "TABLE" and query.group_by is None and uses_aggregates(query):
            raise Problem(query.offset, "aggregate functions need GROUP BY", "add GROUP BY")
        readers = self._readers()
        before = readers.steps
        translator = QueryTranslator(query, readers, self.catalog, statement.name)
        origin = translator.names.inputs[0].relation
        key_format = self._key_format(properties, origin)
        result = translator.result(key_format)
        if result.kind != statement.kind:
            raise Problem(statement.start, f"this query results in a {result.kind}", f"use CREATE {result.kind}")
        relation = self._sink_relation(statement, properties, result, key_format)
        self._check_replaced(statement, relation)
        handle = write(result, relation)
        self._end_query(relation.name)
        self._steps[relation.name] = readers, readers.steps - before
        self.catalog.relations[relation.name] = relation
        return DefinedStatement(statement, handle, relation)

    @staticmethod
    def _key_format(properties: With, origin: Relation) -> Format:
        name = properties.format_name("KEY")
        if name is None:
            inherited = origin.key_format
            name = properties.default_format("KEY") if inherited.name == "NONE" else inherited.name
            delimiter = inherited.delimiter
        else:
            delimiter = properties.delimiter("KEY", name)
        format = properties.format("KEY", name or "KAFKA")
        return msgspec.structs.replace(format, delimiter=delimiter)

    def _sink_relation(
        self, statement: CreateAs, properties: With, result: DefinedResult, key_format: Format
    ) -> Relation:
        start = statement.start
        if not result.keys:
            if properties.text("KEY_FORMAT") not in (None, "NONE"):
                raise Problem(start, "the result has no key, but KEY_FORMAT is given", "remove KEY_FORMAT")
            key_format = Format("NONE")
        inherited = result.origin.value_format
        name = properties.format_name("VALUE") or inherited.name
        if not result.values and name != "NONE":
            raise Problem(start, "the result has no column besides its key", "select another column, or AS_VALUE(key)")
        delimiter = properties.delimiter("VALUE", name)
        if properties.text("VALUE_DELIMITER") is None and name == inherited.name:
            delimiter = inherited.delimiter
        wraps = properties.wrapping(name, result.values)
        value_format = msgspec.structs.replace(properties.format("VALUE", name, wraps), delimiter=delimiter)
        for format in (key_format, value_format):
            needs_registry(properties, format, self.catalog)
        check_format(key_format, result.keys, start, "key")
        check_format(value_format, result.values, start, "value")
        timestamp, pattern = properties.check_timestamp({**result.keys, **result.values})
        prefix = self.catalog.settings.get("ksql.output.topic.name.prefix", "")
        return Relation(
            name=statement.name,
            kind=statement.kind,
            topic=properties.text("KAFKA_TOPIC") or f"{prefix}{statement.name}",
            keys=result.keys,
            values=result.values,
            key_format=key_format,
            value_format=value_format,
            window=result.window,
            timestamp=timestamp,
            timestamp_format=pattern,
            partitions=properties.whole("PARTITIONS"),
            history=properties.history(statement.kind, result.window),
            query=statement.name,
            registry=self.catalog.registry,
        )

    def _check_replaced(self, statement: CreateSource | CreateAs, relation: Relation) -> None:
        """Reject a replacement whose columns are not those of the existing result, possibly with more at the end."""
        existing = self.catalog.relations.get(statement.name)
        if existing is None:
            return
        if list(existing.keys.items()) != list(relation.keys.items()):
            raise Problem(statement.start, f"the key of {statement.name} cannot change", "use another name")
        kept = list(relation.values.items())[: len(existing.values)]
        if kept != list(existing.values.items()):
            raise Problem(statement.start, f"columns of {statement.name} cannot change", "only add columns at the end")

    @_execute.register
    def _insert_select(self, statement: InsertSelect) -> DefinedStatement:
        target = self.catalog.find(statement.target, statement.start)
        if target.kind == "TABLE":
            raise Problem(statement.start, f"{target.name} is a table: INSERT INTO … SELECT needs a stream")
        if target.is_read_only:
            raise Problem(statement.start, f"{target.name} is read-only")
        name = self.insert_name(statement)
        translator = QueryTranslator(statement.query, self._readers(), self.catalog, name)
        result = translator.result(target.key_format)
        if result.kind == "TABLE":
            raise Problem(statement.start, "this query results in a TABLE", "INSERT INTO needs a query of a stream")
        check_insert(statement, result, target)
        return DefinedStatement(statement, write(result, target), target, name=name)

    def insert_name(self, statement: InsertSelect) -> str:
        """Return the name of a query that inserts: of its target and sources, so that others can come and go."""
        name = statement.id or f"{statement.target}-from-{source_names(statement.query)}"
        number = self._inserts[name] = self._inserts.get(name, 0) + 1
        if number > 1 and (statement.id or is_stateful(statement.query)):
            raise Problem(
                statement.start,
                f"two queries that keep state are called {name}",
                f"name this one: INSERT INTO {statement.target} WITH (QUERY_ID = '…') SELECT …",
            )
        return name if number == 1 else f"{name}-{number}"

    @_execute.register
    def _select(self, statement: Select) -> DefinedStatement:
        query: Query = statement.query
        translator = QueryTranslator(query, self._readers(), self.catalog, self.query_name)
        origin = translator.names.inputs[0].relation
        result = translator.result(origin.key_format)
        return DefinedStatement(statement, result.handle)
