"""Execute statements: definitions change the catalog, queries become part of the topology."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import singledispatchmethod
from typing import Any, NamedTuple

import msgspec

from millstream.dsl.handle import Handle
from millstream.errors import DefinitionError, SqlError
from millstream.plan.select import Select as SelectNode
from millstream.plan.sinks import Sink
from millstream.sql.catalog import Catalog, Columns, Format, Relation
from millstream.sql.coercion import can_pass
from millstream.sql.nodes import (
    Alter,
    AnyStatement,
    CreateAs,
    CreateSource,
    CreateType,
    Drop,
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
from millstream.sql.selection import SqlSelection
from millstream.sql.tokens import error_at
from millstream.sql.translate.defining import relation_of
from millstream.sql.translate.inserting import Insertion, insertion_of
from millstream.sql.translate.query import QueryTranslator, uses_aggregates
from millstream.sql.translate.reading import ColumnTime, Readers
from millstream.sql.translate.result import Result
from millstream.sql.types import quoted


class Executed(NamedTuple):
    """A statement and what it has defined."""

    statement: AnyStatement
    handle: Handle[Any, Any] | None = None
    relation: Relation | None = None
    insertion: Insertion | None = None


class Statements:
    """Executes statements one after the other."""

    def __init__(self, catalog: Catalog, readers: Callable[[], Readers]) -> None:
        """``readers`` returns the sources of the app that the next query becomes a part of."""
        self.catalog = catalog
        self._readers = readers
        self.query_name = "query"
        """The name of the next SELECT, for its state."""
        self._inserts: dict[str, int] = {}

    def execute(self, text: str) -> Iterator[Executed]:
        """Execute the statements of a text; an error says where in the text it is."""
        statements = parse(text, self.catalog.types, self.catalog.variables)
        while True:
            statement = next(statements, None)
            if statement is None:
                return
            try:
                executed = self._execute(statement)
            except Problem as problem:
                raise error_at(text, problem.offset, problem.message, problem.hint) from None
            except SqlError:
                raise
            except DefinitionError as error:  # of a step that the statement defines
                raise error_at(text, statement.start, error.message, error.hint) from error
            yield executed

    @singledispatchmethod
    def _execute(self, statement: AnyStatement) -> Executed:
        verb = getattr(statement, "verb", type(statement).__name__)
        hint = "remove it; `millstream sql plan FILE` shows what a file defines"
        raise Problem(statement.start, f"{verb} cannot be used in the definition of an app", hint)

    # Definitions

    @_execute.register
    def _create(self, statement: CreateSource) -> Executed:
        if self._exists(statement):
            return Executed(statement)
        relation = relation_of(statement, self.catalog)
        self.catalog.relations[statement.name] = relation
        return Executed(statement, relation=relation)

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
    def _create_type(self, statement: CreateType) -> Executed:
        if statement.name in self.catalog.types and not statement.if_missing:
            raise Problem(statement.start, f"type {statement.name} exists already", "DROP TYPE it first")
        self.catalog.types.setdefault(statement.name, statement.type)
        return Executed(statement)

    @_execute.register
    def _drop_type(self, statement: DropType) -> Executed:
        if self.catalog.types.pop(statement.name, None) is None and not statement.if_exists:
            raise Problem(statement.start, f"type {statement.name} is unknown", "use IF EXISTS")
        return Executed(statement)

    @_execute.register
    def _drop(self, statement: Drop) -> Executed:
        if statement.if_exists and statement.name not in self.catalog.relations:
            return Executed(statement)
        relation = self.catalog.find(statement.name, statement.start)
        if relation.kind != statement.kind:
            raise Problem(statement.start, f"{statement.name} is a {relation.kind.lower()}", f"DROP {relation.kind}")
        if relation.is_read_only and statement.deletes_topic:
            raise Problem(
                statement.start, f"{statement.name} is read-only: its topic is not deleted", "omit DELETE TOPIC"
            )
        del self.catalog.relations[statement.name]
        return Executed(statement, relation=relation)

    @_execute.register
    def _alter(self, statement: Alter) -> Executed:
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
        return Executed(statement)

    @_execute.register
    def _set(self, statement: Setting) -> Executed:
        target = self.catalog.settings if statement.verb.endswith("SET") else self.catalog.variables
        if statement.value is None:
            target.pop(statement.name, None)
        else:
            target[statement.name] = statement.value
        return Executed(statement)

    @_execute.register
    def _insert_values(self, statement: InsertValues) -> Executed:
        relation = self.catalog.find(statement.target, statement.start)
        return Executed(statement, relation=relation, insertion=insertion_of(statement, relation))

    # Queries

    @_execute.register
    def _create_as(self, statement: CreateAs) -> Executed:
        if self._exists(statement):
            return Executed(statement)
        properties = With(statement.properties, self.catalog.settings, statement.start, is_source=False)
        query = statement.query
        if statement.kind == "TABLE" and query.group_by is None and uses_aggregates(query):
            raise Problem(query.offset, "aggregate functions need GROUP BY", "add GROUP BY")
        translator = QueryTranslator(query, self._readers(), self.catalog, statement.name)
        origin = translator.names.inputs[0].relation
        key_format = self._key_format(properties, origin)
        result = translator.result(key_format)
        if result.kind != statement.kind:
            raise Problem(statement.start, f"this query results in a {result.kind}", f"use CREATE {result.kind}")
        relation = self._sink_relation(statement, properties, result, key_format)
        self._check_replaced(statement, relation)
        handle = write(result, relation)
        self.catalog.relations[relation.name] = relation
        return Executed(statement, handle, relation)

    @staticmethod
    def _key_format(properties: With, origin: Relation) -> Format:
        name = properties.format_name("KEY")
        if name is None:
            inherited = origin.key_format
            name = properties.default_format("KEY") if inherited.name == "NONE" else inherited.name
            delimiter = inherited.delimiter
        else:
            delimiter = properties.delimiter("KEY", name)
        return Format(name or "KAFKA", delimiter)

    def _sink_relation(self, statement: CreateAs, properties: With, result: Result, key_format: Format) -> Relation:
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
        value_format = Format(name, delimiter, wraps)
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
            query=statement.name,
        )

    def _check_replaced(self, statement: CreateAs, relation: Relation) -> None:
        """Reject a replacement whose columns are not those of the existing result, possibly with more at the end."""
        existing = self.catalog.relations.get(statement.name)
        if existing is None:
            return
        if existing.keys != relation.keys:
            raise Problem(statement.start, f"the key of {statement.name} cannot change", "use another name")
        kept = list(relation.values.items())[: len(existing.values)]
        if kept != list(existing.values.items()):
            raise Problem(statement.start, f"columns of {statement.name} cannot change", "only add columns at the end")

    @_execute.register
    def _insert_select(self, statement: InsertSelect) -> Executed:
        target = self.catalog.find(statement.target, statement.start)
        if target.kind == "TABLE":
            raise Problem(statement.start, f"{target.name} is a table: INSERT INTO … SELECT needs a stream")
        if target.is_read_only:
            raise Problem(statement.start, f"{target.name} is read-only")
        number = self._inserts[target.name] = self._inserts.get(target.name, 0) + 1
        translator = QueryTranslator(statement.query, self._readers(), self.catalog, f"{target.name}-insert-{number}")
        result = translator.result(target.key_format)
        if result.kind == "TABLE":
            raise Problem(statement.start, "this query results in a TABLE", "INSERT INTO needs a query of a stream")
        _check_insert(statement, result, target)
        return Executed(statement, write(result, target), target)

    @_execute.register
    def _select(self, statement: Select) -> Executed:
        query: Query = statement.query
        translator = QueryTranslator(query, self._readers(), self.catalog, self.query_name)
        origin = translator.names.inputs[0].relation
        result = translator.result(origin.key_format)
        return Executed(statement, result.handle)


def _check_insert(statement: InsertSelect, result: Result, target: Relation) -> None:
    """Reject a result whose columns are not those of the target."""
    mine: Columns = {**result.keys, **result.values}
    wanted: Columns = {**target.keys, **target.values}
    if list(result.keys.values()) != list(target.keys.values()):
        raise Problem(statement.start, f"the key of the query is not that of {target.name}", "select the same key")
    if len(mine) != len(wanted) or (result.window is None) != (target.window is None):
        raise Problem(
            statement.start,
            f"the query has the columns {', '.join(mine)}, but {target.name} has {', '.join(wanted)}",
            "select the columns of the target",
        )
    for (name, type), (column, target_type) in zip(result.values.items(), target.values.items(), strict=True):
        if name != column or not can_pass(type, target_type):
            raise Problem(
                statement.start,
                f"column {name} {type} does not match {column} {target_type} of {target.name}",
                "select the columns of the target in its order, and CAST them",
            )


def write(result: Result, target: Relation) -> Handle[Any, Any]:
    """Write a result to the topic of a relation."""
    stream = result.handle.to_stream() if result.kind == "TABLE" else result.handle
    timestamp = None if target.timestamp is None else ColumnTime(target)
    if result.values != target.values:
        stream = _converted(stream, result, target)
    node = Sink(
        source=stream._node, topic=target.topic, key=target.key_serde, value=target.value_serde, timestamp=timestamp
    )
    stream._draft.add(node)
    handle: Handle[Any, Any] = result.handle
    return handle


def _converted(stream: Any, result: Result, target: Relation) -> Any:
    """Return a stream whose columns have the types of the target."""
    from_columns: Mapping[str, Any] = result.values
    scope = tuple((name, str(type), "value") for name, type in from_columns.items())
    selection = SqlSelection(
        scope=scope,
        columns=tuple((name, quoted(name)) for name in from_columns),
        types=tuple(str(type) for type in target.values.values()),
    )
    node = SelectNode(source=stream._node, selection=selection)
    return type(stream)(stream._draft, node)
