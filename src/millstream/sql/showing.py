"""Rows that a query shows: their columns, computed from key, value and time, and their order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import msgspec

from millstream.plan.select import Compute
from millstream.sql.compiled import Part, Scope, Shape, clause
from millstream.sql.generate import Generator
from millstream.sql.nodes import AnyExpression, Column, Constant, Order
from millstream.sql.problems import Problem
from millstream.sql.translate.outputs import OutputColumn
from millstream.sql.tree import sql
from millstream.sql.types import NULL, STRING, Type

_WITHOUT_ORDER = ("ARRAY", "MAP", "STRUCT")


class ShownColumn(msgspec.Struct, frozen=True):
    """A column of a result."""

    name: str
    type: Type
    is_key: bool = False


class ShownRows(NamedTuple):
    """Records as columns: keys, values and times."""

    keys: Sequence[Any]
    values: Sequence[Any]
    times: Sequence[int]


class Shown(msgspec.Struct, frozen=True, dict=True):
    """What a query shows of records whose columns are in ``scope``."""

    scope: Scope
    columns: tuple[ShownColumn, ...]
    expressions: tuple[str, ...]
    """Of the columns, then of ORDER BY."""
    descending: tuple[bool, ...] = ()
    skip: int = 0
    limit: int | None = None

    def rows(self, records: ShownRows) -> list[list[Any]]:
        """Return the rows of records in their order; if a value is null, only columns of the key are not."""
        return [row[: len(self.columns)] for row in self._compute(*records, _ignore)]

    def cut(self, records: ShownRows) -> list[list[Any]]:
        """Return the rows in the order of the query, without those that OFFSET and LIMIT leave out."""
        rows = self._compute(*records, _ignore)
        first = len(self.columns)
        for number in reversed(range(len(self.descending))):
            rows.sort(key=_order_of(first + number), reverse=self.descending[number])
        stop = None if self.limit is None else self.skip + self.limit
        return [row[:first] for row in rows[self.skip : stop]]

    @cached_property
    def _compute(self) -> Compute:
        parts = [Part(f"column {number + 1}", text) for number, text in enumerate(self.expressions)]
        code = "[" + ", ".join(f"{{{number}}}" for number in range(len(parts))) + "]"
        return clause(self.scope, parts, Shape(code, None), "shown")


def _order_of(number: int) -> Callable[[list[Any]], tuple[bool, Any]]:
    """Return the sort key of rows by a column; null is larger than everything."""
    return lambda row: (row[number] is None, row[number] if row[number] is not None else 0)


def _ignore(_part: str, _error: Exception, _row: int) -> None:
    """Ignore an error in an expression: its value is null."""


def shown_columns(
    outputs: Sequence[OutputColumn], generator: Generator, keys: Iterable[str]
) -> tuple[ShownColumn, ...]:
    """Return the columns of outputs; ``keys`` are the names of columns that belong to the key."""
    names = set(keys)
    columns = []
    for output in outputs:
        type = generator.code(output.node).type
        is_key = isinstance(output.node, Column) and output.node.name in names
        columns.append(ShownColumn(output.name, STRING if type == NULL else type, is_key))
    return tuple(columns)


def ordered_nodes(
    orders: Sequence[Order], outputs: Sequence[OutputColumn], resolve: Callable[[AnyExpression], AnyExpression]
) -> list[AnyExpression]:
    """Return the expressions of ORDER BY: a number or a name stands for a column of the result."""
    named = {output.name: output.node for output in outputs}
    nodes: list[AnyExpression] = []
    for order in orders:
        node = order.expression
        if isinstance(node, Constant) and node.kind == "integer":
            if not 1 <= int(node.text) <= len(outputs):
                raise Problem(node.offset, f"there is no column {node.text}", f"use 1 to {len(outputs)}")
            nodes.append(outputs[int(node.text) - 1].node)
        elif isinstance(node, Column) and node.source is None and node.name in named:
            nodes.append(named[node.name])
        else:
            nodes.append(resolve(node))
    return nodes


def shown(
    scope: Scope,
    generator: Generator,
    outputs: Sequence[OutputColumn],
    orders: Sequence[AnyExpression],
    keys: Iterable[str],
) -> Shown:
    """Return what is shown of records; the order is ascending."""
    for node in orders:
        if (type := generator.code(node).type).kind in _WITHOUT_ORDER:
            raise Problem(node.offset, f"{type} has no order", "order by a part of it")
    nodes = [*(output.node for output in outputs), *orders]
    return Shown(scope, shown_columns(outputs, generator, keys), tuple(sql(node) for node in nodes))
