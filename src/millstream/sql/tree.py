"""Walk through expressions, rewrite them, and write them as SQL."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import singledispatch
from typing import Any

import msgspec

from millstream.sql.nodes import (
    AnyExpression,
    Array,
    Between,
    Binary,
    Call,
    Case,
    Cast,
    Column,
    Constant,
    Expression,
    Field,
    In,
    Index,
    IsNull,
    Lambda,
    Like,
    Map,
    Star,
    Struct,
    Unary,
)
from millstream.sql.types import quoted


def children(node: AnyExpression) -> Iterator[AnyExpression]:
    """Yield the expressions that an expression consists of."""
    for field in node.__struct_fields__:
        yield from _expressions(getattr(node, field))


def _expressions(value: Any) -> Iterator[AnyExpression]:
    if isinstance(value, Expression):
        yield value  # type: ignore[misc]
    elif isinstance(value, tuple):
        for item in value:
            yield from _expressions(item)


def walk(node: AnyExpression) -> Iterator[AnyExpression]:
    """Yield an expression and everything inside it."""
    yield node
    for child in children(node):
        yield from walk(child)


def columns_of(node: AnyExpression, bound: frozenset[str] = frozenset()) -> Iterator[Column]:
    """Yield the columns that an expression refers to; parameters of lambdas are none."""
    if isinstance(node, Column):
        if node.source is not None or node.name not in bound:
            yield node
        return
    if isinstance(node, Lambda):
        bound |= set(node.parameters)
    for child in children(node):
        yield from columns_of(child, bound)


def transform(node: AnyExpression, change: Callable[[AnyExpression], AnyExpression | None]) -> AnyExpression:
    """Return an expression with parts replaced: ``change`` returns the replacement, or None to look inside."""
    replaced = change(node)
    if replaced is not None:
        return replaced
    changes = {field: _changed(getattr(node, field), change) for field in node.__struct_fields__}
    return msgspec.structs.replace(node, **changes)


def _changed(value: Any, change: Callable[[AnyExpression], AnyExpression | None]) -> Any:
    if isinstance(value, Expression):
        return transform(value, change)  # type: ignore[arg-type]
    if isinstance(value, tuple):
        return tuple(_changed(item, change) for item in value)
    return value


def transform_columns(
    node: AnyExpression, change: Callable[[Column], AnyExpression], bound: frozenset[str] = frozenset()
) -> AnyExpression:
    """Return an expression with its columns replaced; parameters of lambdas stay."""

    def step(part: AnyExpression) -> AnyExpression | None:
        if isinstance(part, Column):
            return part if part.source is None and part.name in bound else change(part)
        if isinstance(part, Lambda):
            body = transform_columns(part.body, change, bound | set(part.parameters))
            return msgspec.structs.replace(part, body=body)
        return None

    return transform(node, step)


# SQL text


@singledispatch
def sql(node: AnyExpression) -> str:
    """Return an expression as SQL that parses to the same expression, fully in parentheses."""
    raise TypeError(f"{type(node).__name__} is not an expression")


@sql.register
def _literal(node: Constant) -> str:
    return "'" + node.text.replace("'", "''") + "'" if node.kind == "text" else node.text


@sql.register
def _column(node: Column) -> str:
    return quoted(node.name) if node.source is None else f"{quoted(node.source)}.{quoted(node.name)}"


@sql.register
def _star(node: Star) -> str:
    return "*" if node.source is None else f"{quoted(node.source)}.*"


@sql.register
def _unary(node: Unary) -> str:
    return f"({node.operator} {sql(node.operand)})"


@sql.register
def _binary(node: Binary) -> str:
    return f"({sql(node.left)} {node.operator} {sql(node.right)})"


@sql.register
def _is_null(node: IsNull) -> str:
    return f"({sql(node.operand)} IS {'NOT ' if node.negated else ''}NULL)"


@sql.register
def _between(node: Between) -> str:
    return f"({sql(node.operand)} {_not(node)}BETWEEN {sql(node.low)} AND {sql(node.high)})"


@sql.register
def _in(node: In) -> str:
    return f"({sql(node.operand)} {_not(node)}IN ({_list(node.items)}))"


@sql.register
def _like(node: Like) -> str:
    escape = "" if node.escape is None else f" ESCAPE '{node.escape}'"
    return f"({sql(node.operand)} {_not(node)}LIKE {sql(node.pattern)}{escape})"


def _not(node: Between | In | Like) -> str:
    return "NOT " if node.negated else ""


def _list(items: tuple[AnyExpression, ...]) -> str:
    return ", ".join(map(sql, items))


@sql.register
def _case(node: Case) -> str:
    operand = "" if node.operand is None else f" {sql(node.operand)}"
    branches = "".join(f" WHEN {sql(condition)} THEN {sql(result)}" for condition, result in node.branches)
    otherwise = "" if node.otherwise is None else f" ELSE {sql(node.otherwise)}"
    return f"CASE{operand}{branches}{otherwise} END"


@sql.register
def _cast(node: Cast) -> str:
    return f"CAST({sql(node.operand)} AS {node.type})"


@sql.register
def _call(node: Call) -> str:
    return f"{quoted(node.declaration) if node.declaration else node.name}({_list(node.arguments)})"


@sql.register
def _index(node: Index) -> str:
    return f"{sql(node.operand)}[{sql(node.index)}]"


@sql.register
def _field(node: Field) -> str:
    return f"{sql(node.operand)}->{node.name if node.name == '*' else quoted(node.name)}"


@sql.register
def _array(node: Array) -> str:
    return f"ARRAY[{_list(node.items)}]"


@sql.register
def _map(node: Map) -> str:
    return f"MAP({', '.join(f'{sql(key)} := {sql(value)}' for key, value in node.items)})"


@sql.register
def _struct(node: Struct) -> str:
    return f"STRUCT({', '.join(f'{quoted(name)} := {sql(value)}' for name, value in node.items)})"


@sql.register
def _lambda(node: Lambda) -> str:
    return f"({', '.join(map(quoted, node.parameters))}) => {sql(node.body)}"
