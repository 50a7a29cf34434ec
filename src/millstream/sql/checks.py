"""Refusals: what is valid syntax but has no meaning."""

from __future__ import annotations

from typing import TYPE_CHECKING

from millstream.sql.aggregates import AGGREGATES, is_aggregate
from millstream.sql.functions.registry import similar_names
from millstream.sql.functions.user import overloads_of
from millstream.sql.nodes import AnyExpression, Call, Query
from millstream.sql.problems import Problem
from millstream.sql.tree import sql, walk
from millstream.sql.types import Type, contains

if TYPE_CHECKING:
    from millstream.sql.translate.names import QueryNames


def check_endless(query: Query) -> None:
    """Reject clauses of queries that end in a query that becomes a part of an app."""
    for clause, value in (("LIMIT", query.limit), ("OFFSET", query.skip), ("ORDER BY", query.order_by or None)):
        if value is not None:
            raise Problem(query.offset, f"{clause} is for queries that end, this one runs forever", "remove it")


def check_query(query: Query, names: QueryNames) -> None:
    """Reject combinations of clauses."""
    if names.duplicates:
        raise Problem(query.source.offset, f"two sources are called {names.duplicates[0]}", "give each an alias")
    if query.window is not None and query.group_by is None:
        raise Problem(query.window.offset, "WINDOW needs GROUP BY", "add GROUP BY, or remove WINDOW")
    if query.group_by is not None and query.partition_by is not None:
        raise Problem(query.offset, "GROUP BY and PARTITION BY cannot be combined", "GROUP BY sets the key already")
    if query.having is not None and query.group_by is None:
        raise Problem(query.having.offset, "HAVING needs GROUP BY", "use WHERE")
    if query.emit == "FINAL" and query.window is None:
        raise Problem(query.offset, "EMIT FINAL needs a window", "add WINDOW …, or use EMIT CHANGES")
    _check_kinds(query, names)


def _check_kinds(query: Query, names: QueryNames) -> None:
    first = names.inputs[0].relation
    if first.kind == "TABLE" and query.partition_by is not None:
        raise Problem(query.offset, "a table cannot be partitioned again", "its primary key decides its partitions")
    if first.kind == "TABLE" and query.window is not None:
        raise Problem(query.window.offset, "WINDOW is for streams, this is a table", "aggregate the stream")
    if first.window is not None and query.group_by is not None:
        raise Problem(query.offset, f"{first.name} is windowed: GROUP BY needs a source without windows")
    if first.window is not None and query.partition_by is not None:
        raise Problem(query.offset, f"{first.name} is windowed: PARTITION BY needs a source without windows")


def check_scalar(node: AnyExpression, clause: str) -> None:
    """Reject aggregate functions where there are no groups."""
    for part in walk(node):
        if is_aggregate(part) and clause == "WHERE":
            problem = f"{part.name} cannot be used in WHERE: it has no rows yet"
            raise Problem(part.offset, problem, "use HAVING, which needs GROUP BY")
        if is_aggregate(part):
            raise Problem(part.offset, f"{part.name} cannot be used in {clause} without GROUP BY", "add GROUP BY")


def check_functions(node: AnyExpression) -> None:
    """Reject unknown functions, before anything is said about their arguments."""
    for part in walk(node):
        if isinstance(part, Call) and not is_aggregate(part) and overloads_of(part) is None:
            raise Problem(part.offset, f"function {part.name} is unknown", similar_names(part.name, AGGREGATES))


def check_groups(groups: list[AnyExpression], query: Query, _names: QueryNames) -> None:
    """Reject groups that are twice or have aggregates."""
    texts: set[str] = set()
    for group in groups:
        check_scalar(group, "GROUP BY")
        if sql(group) in texts:
            raise Problem(group.offset, "the same expression is twice in GROUP BY", "remove one")
        texts.add(sql(group))
    if not groups:
        raise Problem(query.offset, "GROUP BY needs an expression")


def check_key_type(type: Type, offset: int) -> None:
    """Reject types that cannot be keys."""
    if contains(type, "MAP"):
        raise Problem(offset, f"a key cannot be or contain a MAP: {type}", "maps have no order; use a STRUCT")
