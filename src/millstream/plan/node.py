"""The base of all plan nodes, and the traversals of them.

A node is data: frozen, checked when it is created, compared by identity. Nodes refer to the nodes that they read from;
the readers of a node are derived. A topology is the tuple of its nodes in the order in which the user defined them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias, TypeVar

from millstream.foundation.names import snake_case

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Node:
    """One step of a topology."""

    name: str | None = None

    @property
    def verb(self) -> str:
        """The name of this kind of node in plans, names and messages."""
        return verb_of(type(self))


Nodes: TypeAlias = tuple[Node, ...]


def verb_of(kind: type[Node]) -> str:
    """Return the name of a kind of node."""
    return snake_case(kind.__name__)


def _field_names(node: Node) -> tuple[str, ...]:
    kind: Any = type(node)
    return _names_of(kind)


@cache
def _names_of(kind: Any) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(kind))


def inputs(node: Node) -> Nodes:
    """Return the nodes that ``node`` reads from, in order."""
    nodes: list[Node] = []
    for name in _field_names(node):
        value = getattr(node, name)
        if isinstance(value, Node):
            nodes.append(value)
        elif isinstance(value, tuple):
            nodes.extend(item for item in value if isinstance(item, Node))
    return tuple(nodes)


def consumers(nodes: Nodes) -> dict[Node, list[tuple[Node, int]]]:
    """Return the readers of each node, with the number of the input, in definition order."""
    readers: dict[Node, list[tuple[Node, int]]] = {node: [] for node in nodes}
    for node in nodes:
        for port, source in enumerate(inputs(node)):
            readers[source].append((node, port))
    return readers


def fold(nodes: Nodes, step: Callable[[Node, tuple[T, ...]], T]) -> dict[Node, T]:
    """Compute a result for each node from the results of its inputs; each node once."""
    results: dict[Node, T] = {}
    for node in nodes:
        results[node] = step(node, tuple(results[source] for source in inputs(node)))
    return results


def rewrite(nodes: Nodes, step: Callable[[Node], Iterable[Node]]) -> Nodes:
    """Replace each node by nodes of which the last one becomes the input of its readers.

    ``step`` gets nodes whose inputs are replaced already; it may return a node that it has returned before.
    """
    replaced: dict[Node, Node] = {}
    result: dict[Node, None] = {}
    for node in nodes:
        for new in step(_with_inputs(node, replaced)):
            result[new] = None
            replaced[node] = new
    return tuple(result)


def _with_inputs(node: Node, replaced: dict[Node, Node]) -> Node:
    changes: dict[str, Any] = {}
    for name in _field_names(node):
        value = getattr(node, name)
        if isinstance(value, Node):
            changes[name] = replaced[value]
        elif isinstance(value, tuple) and any(isinstance(item, Node) for item in value):
            changes[name] = tuple(replaced[item] for item in value)
    if all(getattr(node, name) is value for name, value in changes.items()):
        return node
    return dataclasses.replace(node, **changes)
