"""SHOW and DESCRIBE: what a session knows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from millstream.broker import Broker
from millstream.errors import MillstreamError
from millstream.queries.answers import Result, text_columns
from millstream.queries.limits import Limits
from millstream.sql.aggregates import AGGREGATES
from millstream.sql.catalog import Catalog, Relation
from millstream.sql.functions.registry import FUNCTIONS, similar_names
from millstream.sql.functions.tables import TABLE_FUNCTIONS
from millstream.sql.nodes import Describe, Show
from millstream.sql.problems import Problem
from millstream.sql.published import Published


def function_kinds() -> dict[str, str]:
    """Return the names of all functions, sorted, with their kinds: scalar, aggregate or table."""
    kinds = {
        **dict.fromkeys((name for name in FUNCTIONS if not name.startswith("_")), "scalar"),
        **dict.fromkeys(AGGREGATES, "aggregate"),
        **dict.fromkeys(TABLE_FUNCTIONS, "table"),
    }
    return dict(sorted(kinds.items()))


class Listing:
    """Answers SHOW and DESCRIBE."""

    def __init__(
        self,
        catalog: Catalog,
        published: Published,
        limits: Limits,
        broker: Callable[[], Broker],
        states: Mapping[str, str],
    ) -> None:
        """``states`` are those of the queries, as far as they are known."""
        self._states = states
        self._catalog = catalog
        self._published = published
        self._limits = limits
        self._broker = broker

    def show(self, statement: Show) -> Result:
        """Return what SHOW lists."""
        lists: dict[str, Callable[[], Result]] = {
            "STREAMS": lambda: self._relations("STREAM"),
            "TABLES": lambda: self._relations("TABLE"),
            "TOPICS": self._topics,
            "QUERIES": self._queries,
            "FUNCTIONS": self._functions,
            "PROPERTIES": self._properties,
            "TYPES": self._types,
            "VARIABLES": lambda: Result(
                text_columns("NAME", "VALUE"), [[*item] for item in sorted(self._catalog.variables.items())]
            ),
        }
        return lists[statement.what]()

    def _relations(self, kind: str) -> Result:
        rows: list[list[Any]] = [
            [each.name, each.topic, each.key_format.name, each.value_format.name, _windows(each)]
            for each in sorted(self._catalog.relations.values(), key=lambda each: each.name)
            if each.kind == kind
        ]
        return Result(text_columns("NAME", "TOPIC", "KEY_FORMAT", "VALUE_FORMAT", "WINDOWS"), rows)

    def _topics(self) -> Result:
        broker = self._broker()
        infos = [broker.topic(name) for name in sorted(broker.topic_names())]
        rows: list[list[Any]] = [
            [info.name, info.partitions, sum(each.end - each.begin for each in info.offsets)] for info in infos
        ]
        return Result(text_columns("NAME", "PARTITIONS", "RECORDS"), rows)

    def _queries(self) -> Result:
        rows: list[list[Any]] = [
            [query.name, query.target, self._states.get(query.name), " ".join(query.statement.split())]
            for query in self._published.queries
        ]
        return Result(text_columns("NAME", "TARGET", "STATE", "STATEMENT"), rows)

    def _functions(self) -> Result:
        return Result(text_columns("NAME", "KIND"), [[*item] for item in function_kinds().items()])

    def _properties(self) -> Result:
        numbers = msgspec.structs.asdict(self._limits)
        limits = {
            f"limit.{name}": f"{value:,}" if isinstance(value, int) else f"{value:g}" for name, value in numbers.items()
        }
        return Result(text_columns("NAME", "VALUE"), [[*item] for item in {**limits, **self._catalog.settings}.items()])

    def _types(self) -> Result:
        return Result(
            text_columns("NAME", "TYPE"), [[name, str(named)] for name, named in sorted(self._catalog.types.items())]
        )

    def describe(self, statement: Describe) -> Result:
        """Return the columns of a stream or table, or the signatures of a function."""
        if statement.is_function:
            return _signatures(statement)
        relation = self._catalog.find(statement.name, statement.start)
        role = "KEY" if relation.kind == "STREAM" else "PRIMARY KEY"
        rows: list[list[Any]] = [[name, str(kind), role] for name, kind in relation.keys.items()]
        rows += [[name, str(kind), ""] for name, kind in relation.values.items()]
        rows += [
            [name, "BYTES", f"HEADER('{header}')"] if header is not None else [name, "ARRAY", "HEADERS"]
            for name, header in relation.headers.items()
        ]
        note = "\n".join(f"{name}: {value}" for name, value in self._facts(relation).items())
        return Result(text_columns("COLUMN", "TYPE", "ROLE"), rows, note if statement.is_extended else "")

    def _facts(self, relation: Relation) -> dict[str, Any]:
        published = next((each for each in self._published.relations if each.relation == relation), None)
        query = next((each for each in self._published.queries if each.target == relation.name), None)
        facts: dict[str, Any] = {
            "kind": relation.kind.lower(),
            "topic": relation.topic,
            "key format": relation.key_format.name,
            "value format": relation.value_format.name,
            "windows": _windows(relation),
            "time": relation.timestamp,
            "stored table": None if published is None else published.store,
            "state": None if query is None else self._states.get(query.name),
            "statement": None if query is None else " ".join(query.statement.split()),
        }
        try:
            info = self._broker().topic(relation.topic)
            facts["partitions"] = info.partitions
            facts["records"] = sum(each.end - each.begin for each in info.offsets)
        except MillstreamError as error:
            facts["records"] = error.message
        return {name: value for name, value in facts.items() if value not in (None, "")}


def _windows(relation: Relation) -> str:
    if relation.window is None:
        return ""
    size = relation.window.size
    return relation.window.kind if size is None else f"{relation.window.kind} {size} MILLISECONDS"


def _signatures(statement: Describe) -> Result:
    name = statement.name
    if name in FUNCTIONS:
        rows: list[list[Any]] = [[f"{name}{overload.text}", _result(overload.result)] for overload in FUNCTIONS[name]]
    elif name in AGGREGATES or name in TABLE_FUNCTIONS:
        rows = [[name, "aggregate" if name in AGGREGATES else "table function"]]
    else:
        raise Problem(statement.start, f"function {name} is unknown", similar_names(name, AGGREGATES))
    return Result(text_columns("SIGNATURE", "RETURNS"), rows)


def _result(result: Any) -> str:
    return "depends on the arguments" if callable(result) else str(result)
