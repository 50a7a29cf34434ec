"""What the SQL of an app defines, as data: other processes query its streams and tables without its code."""

from __future__ import annotations

from typing import Any

import msgspec

from millstream.plan.node import Node
from millstream.plan.stateful import Aggregate, WindowedAggregate
from millstream.plan.tables import TableAggregate, TableFilter, TableMapValues
from millstream.sql.catalog import Catalog, Relation
from millstream.sql.nodes import Call
from millstream.sql.parser.statements import parse_expression
from millstream.sql.selection import SqlFunction, SqlSelection
from millstream.sql.tree import walk
from millstream.sql.types import Type

_AGGREGATES = (Aggregate, WindowedAggregate, TableAggregate)


class Step(msgspec.Struct, frozen=True):
    """A step behind a stored table that is not stored itself: ``where`` leaves rows out, ``value`` changes them."""

    clause: str
    selection: SqlSelection


class PublishedRelation(msgspec.Struct, frozen=True, kw_only=True):
    """A stream or table, and the stored table that its rows are computed from, if there is one."""

    relation: Relation
    store: str | None = None
    steps: tuple[Step, ...] = ()
    """From the stored rows to those of the table."""


class PublishedQuery(msgspec.Struct, frozen=True, kw_only=True):
    """A query of an app: a statement that writes to a stream or table."""

    name: str
    target: str
    statement: str
    topics: tuple[str, ...] = ()
    """The topics that it reads."""


class PublishedPart(msgspec.Struct, frozen=True, kw_only=True):
    """Queries that can only be paused together, since they share a topic, a step or a store."""

    topics: tuple[str, ...]
    queries: tuple[str, ...]
    others: tuple[str, ...] = ()
    """Steps of Python that belong to it."""


class Published(msgspec.Struct, frozen=True, kw_only=True):
    """All that SQL defines in an app."""

    relations: tuple[PublishedRelation, ...] = ()
    queries: tuple[PublishedQuery, ...] = ()
    parts: tuple[PublishedPart, ...] = ()
    types: dict[str, Type] = {}
    functions: dict[str, str] = {}
    """The declarations of functions of the user, which name Python code."""

    def catalog(self, *, allows_code: bool = False) -> Catalog:
        """Return a new catalog with these streams, tables and types, and functions only where code is allowed."""
        catalog = Catalog()
        catalog.relations.update({each.relation.name: each.relation for each in self.relations})
        catalog.types.update(self.types)
        if allows_code:
            catalog.functions.update(self.functions)
        return catalog


def published_relation(relation: Relation, node: Node | None) -> PublishedRelation:
    """Return a relation with the way from a stored table to it; ``node`` is the last step of its query."""
    steps: list[Step] = []
    while node is not None:
        if _is_stored(node):
            return PublishedRelation(relation=relation, store=node.name, steps=tuple(reversed(steps)))
        function = _function(node)
        if function is None or _uses_python(function.selection):
            break  # another process reads the topic instead, and never imports code that a plan names
        steps.append(Step(function.clause, function.selection))
        node = node.source  # type: ignore[attr-defined]
    return PublishedRelation(relation=relation)


def _is_stored(node: Node) -> bool:
    return node.name is not None and (isinstance(node, _AGGREGATES) or bool(getattr(node, "stored", False)))


def _function(node: Node) -> SqlFunction | None:
    function: Any = None
    if isinstance(node, TableMapValues):
        function = node.mapper
    elif isinstance(node, TableFilter) and not node.negate:
        function = node.predicate
    return function if isinstance(function, SqlFunction) else None


def _uses_python(selection: SqlSelection) -> bool:
    """Whether an expression calls a function of the user."""
    texts = [selection.where or "TRUE", *(text for _, text in selection.columns or ())]
    parts = (part for text in texts for part in walk(parse_expression(text)))
    return any(isinstance(part, Call) and part.declaration for part in parts)
