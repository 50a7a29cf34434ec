"""Queries over a stored table: which of its rows have to be read, found out from WHERE."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from millstream.plan.select import Compute
from millstream.sql import checks
from millstream.sql.catalog import Relation
from millstream.sql.compiled import CONDITION, Part, Scope, clause, scope_codes
from millstream.sql.constants import constant_value
from millstream.sql.generate import Generator
from millstream.sql.nodes import AnyExpression, Between, Binary, Column, In, Query
from millstream.sql.problems import Problem
from millstream.sql.showing import Shown, ordered_nodes, shown
from millstream.sql.translate.names import BOUNDS, Input, QueryNames
from millstream.sql.translate.outputs import outputs_of
from millstream.sql.translate.reading import scope_of
from millstream.sql.tree import columns_of, sql
from millstream.sql.types import BIGINT, Type
from millstream.windows import FOREVER

_FLIPPED = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_ORDERED = ("INTEGER", "BIGINT", "STRING")
"""Key types whose stored order is that of SQL."""


class Lookup(NamedTuple):
    """A query over a stored table; ``where`` decides, the bounds only say which rows cannot match."""

    shown: Shown
    where: Compute | None
    keys: tuple[Any, ...] | None
    """The keys to look up; None for a range or all rows."""
    first: Any
    last: Any
    """The first and last key, None if there is no such bound."""
    start: int
    stop: int
    """The first and last start of windows."""

    @property
    def kind(self) -> str:
        """What is read, in words."""
        if self.keys is not None:
            return f"{len(self.keys)} key{'' if len(self.keys) == 1 else 's'}"
        return "a range of keys" if self.first is not None or self.last is not None else "all rows"

    @property
    def is_scan(self) -> bool:
        return self.kind == "all rows"


def lookup_of(query: Query, relation: Relation) -> Lookup:
    """Return how a query reads a stored table."""
    source = Input(query.source.alias, relation)
    names = QueryNames([source], shows_bounds=True)
    scope: Scope = (*scope_of(source, ()), ("ROWTIME", str(BIGINT), "time"))
    generator = Generator(scope_codes(scope))
    outputs = outputs_of(
        query.items, names, generator, has_row_key=False, keeps_bounds=False, keys_last=False, allows_system=True
    )
    for output in outputs:
        checks.check_functions(output.node)
        checks.check_scalar(output.node, "SELECT")
    orders = ordered_nodes(query.order_by, outputs, lambda node: names.resolved(node, "ORDER BY"))
    keys = {*relation.keys, *(BOUNDS if relation.window is not None else ())}
    result = shown(scope, generator, outputs, orders, keys)
    descending = tuple(order.is_descending for order in query.order_by)
    result = msgspec.structs.replace(result, descending=descending, skip=query.skip or 0, limit=query.limit)
    if query.where is None:
        return Lookup(result, None, None, None, None, 0, FOREVER)
    condition = names.resolved(query.where, "WHERE")
    checks.check_scalar(condition, "WHERE")
    generator.condition(condition)
    bounds = _Bounds(relation)
    for part in _conjuncts(condition):
        bounds.narrow(part)
    where = clause(scope, [Part("WHERE", sql(condition))], CONDITION, "where")
    return Lookup(result, where, bounds.keys(), *bounds.range())


def _conjuncts(node: AnyExpression) -> list[AnyExpression]:
    if isinstance(node, Binary) and node.operator == "AND":
        return [*_conjuncts(node.left), *_conjuncts(node.right)]
    return [node]


class _Bounds:
    """What the conditions that AND connects say about keys and windows."""

    def __init__(self, relation: Relation) -> None:
        self._types = relation.keys
        self._equal: dict[str, list[Any]] = {}
        self._low: dict[str, Any] = {}
        self._high: dict[str, Any] = {}

    def narrow(self, node: AnyExpression) -> None:
        """Take a condition into account if it compares a column of the key, or of the window, with a constant."""
        if isinstance(node, In) and not node.negated and isinstance(node.operand, Column):
            self._among(node.operand.name, list(node.items))
        elif isinstance(node, Between) and not node.negated and isinstance(node.operand, Column):
            self._compare(node.operand.name, ">=", node.low)
            self._compare(node.operand.name, "<=", node.high)
        elif isinstance(node, Binary) and node.operator in _FLIPPED:
            if isinstance(node.left, Column):
                self._compare(node.left.name, node.operator, node.right)
            elif isinstance(node.right, Column):
                self._compare(node.right.name, _FLIPPED[node.operator], node.left)

    def _among(self, name: str, items: list[AnyExpression]) -> None:
        values = [self._value(name, item) for item in items]
        if name in self._types and None not in values and name not in self._equal:
            self._equal[name] = values

    def _compare(self, name: str, operator: str, node: AnyExpression) -> None:
        value = self._value(name, node)
        if value is None:
            return
        if operator == "=" and name in self._types:
            self._equal.setdefault(name, [value])
        if operator in ("=", ">", ">="):
            self._low[name] = max(self._low.get(name, value), value)
        if operator in ("=", "<", "<="):
            self._high[name] = min(self._high.get(name, value), value)

    def _value(self, name: str, node: AnyExpression) -> Any:
        """Return the constant that a column is compared with, None if it is of no use."""
        type: Type | None = self._types.get(name, BIGINT if name in BOUNDS else None)
        if type is None or any(columns_of(node)):
            return None
        try:
            exact, value = constant_value(node), constant_value(node, type)
        except (Problem, ValueError, ArithmeticError, TypeError):
            return None
        return value if exact == value else None

    def keys(self) -> tuple[Any, ...] | None:
        """Return the keys that can match."""
        if not self._types or set(self._equal) != set(self._types):
            return None
        if len(self._types) == 1:
            values = next(iter(self._equal.values()))
            return tuple(value for number, value in enumerate(values) if value not in values[:number])
        if any(len(values) > 1 for values in self._equal.values()):
            return None
        return (tuple(self._equal[name][0] for name in self._types),)

    def range(self) -> tuple[Any, Any, int, int]:
        """Return the first and last key, and the first and last start of windows."""
        first = last = None
        if len(self._types) == 1:
            [(name, type)] = self._types.items()
            if type.kind in _ORDERED:
                first, last = self._low.get(name), self._high.get(name)
        return first, last, self._low.get("WINDOWSTART", 0), self._high.get("WINDOWSTART", FOREVER)
