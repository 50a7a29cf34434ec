"""The base of all plan nodes, and the walks over them.

A node is data: frozen, checked when it is made, known by identity. Nodes point to what they read from; who reads from
a node is derived. A topology is the tuple of its nodes in the order in which the user wrote them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from millstream.foundation.names import snake_case

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Node:
    """One step of a topology."""

    name: str | None = None

    @property
    def verb(self) -> str:
        """The word for this kind of node in plans, names and messages."""
        return verb_of(type(self))


Nodes: TypeAlias = tuple[Node, ...]


def verb_of(kind: type[Node]) -> str:
    """Return the word for a kind of node."""
    return snake_case(kind.__name__)


def inputs(node: Node) -> Nodes:
    """Return the nodes that ``node`` reads from, in order."""
    found: list[Node] = []
    for field in dataclasses.fields(node):
        value = getattr(node, field.name)
        if isinstance(value, Node):
            found.append(value)
        elif isinstance(value, tuple):
            found.extend(item for item in value if isinstance(item, Node))
    return tuple(found)


def consumers(nodes: Nodes) -> dict[Node, list[tuple[Node, int]]]:
    """Return for each node who reads from it, with the number of the input, in the order of writing."""
    readers: dict[Node, list[tuple[Node, int]]] = {node: [] for node in nodes}
    for node in nodes:
        for port, source in enumerate(inputs(node)):
            readers[source].append((node, port))
    return readers


def fold(nodes: Nodes, step: Callable[[Node, tuple[T, ...]], T]) -> dict[Node, T]:
    """Compute something for each node from the results of its inputs; each node once."""
    results: dict[Node, T] = {}
    for node in nodes:
        results[node] = step(node, tuple(results[source] for source in inputs(node)))
    return results


def rewrite(nodes: Nodes, step: Callable[[Node], Iterable[Node]]) -> Nodes:
    """Replace each node by some nodes, the last of which takes its place; inputs are already replaced."""
    replaced: dict[Node, Node] = {}
    result: list[Node] = []
    for node in nodes:
        result.extend(step(_with_inputs(node, replaced)))
        replaced[node] = result[-1]
    return tuple(result)


def _with_inputs(node: Node, replaced: dict[Node, Node]) -> Node:
    changes: dict[str, Any] = {}
    for field in dataclasses.fields(node):
        value = getattr(node, field.name)
        if isinstance(value, Node):
            changes[field.name] = replaced[value]
        elif isinstance(value, tuple) and any(isinstance(item, Node) for item in value):
            changes[field.name] = tuple(replaced[item] for item in value)
    if all(getattr(node, name) is value for name, value in changes.items()):
        return node
    return dataclasses.replace(node, **changes)
