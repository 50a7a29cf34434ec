"""Find steps that compute the same key of the same stream or table, so that they move its records once."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from millstream.functions import Function
from millstream.plan.node import Node, Nodes, inputs, rewrite
from millstream.plan.stateless import SelectKey
from millstream.plan.tables import TableGroupBy

_SELECTING = (SelectKey, TableGroupBy)


def merge_same_keys(nodes: Nodes) -> Nodes:
    """Let the readers of steps that compute the same key of the same stream or table all read the first of them."""
    first_steps: dict[Node, list[Node]] = {}

    def step(node: Node) -> Iterable[Node]:
        if not isinstance(node, _SELECTING):
            return [node]
        steps = first_steps.setdefault(node.source, [])
        same = next((other for other in steps if computes_same_key(other, node)), None)
        if same is not None:
            return [same]
        steps.append(node)
        return [node]

    return rewrite(nodes, step)


def computes_same_key(node: Node, other: Node) -> bool:
    """Whether two steps compute the same key from the same input, by the same function; names do not matter."""
    if type(node) is not type(other) or not isinstance(node, _SELECTING) or inputs(node) != inputs(other):
        return False
    names = (field.name for field in dataclasses.fields(node) if field.name not in ("name", "source"))
    return all(_is_same(getattr(node, name), getattr(other, name)) for name in names)


def _is_same(value: object, other: object) -> bool:
    if isinstance(value, Function) and isinstance(other, Function):
        return value.computes_same_as(other)
    if value is None or other is None:
        return value is other
    return type(value) is type(other) and getattr(value, "name", value) == getattr(other, "name", other)
