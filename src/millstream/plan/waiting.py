"""The nodes that get records late because a node upstream holds them back.

When time advances without records, it must not advance for these nodes: records still held back would be late there.
"""

from __future__ import annotations

from millstream.plan.batched import BATCHED
from millstream.plan.joins import StreamStreamJoin
from millstream.plan.node import Node, Nodes, fold, inputs
from millstream.plan.stateful import StreamTableJoin, WindowedAggregate
from millstream.plan.suppress import Suppress


def waiting_nodes(nodes: Nodes) -> frozenset[Node]:
    """Return the nodes downstream of nodes that hold records back."""
    late = fold(nodes, _forwards_late)
    return frozenset(node for node in nodes if any(late[source] for source in inputs(node)))


def _forwards_late(node: Node, sources: tuple[bool, ...]) -> bool:
    return any(sources) or _holds_back(node)


def _holds_back(node: Node) -> bool:
    if isinstance(node, WindowedAggregate):
        return node.final
    if isinstance(node, StreamStreamJoin):
        return node.kind != "inner"
    return isinstance(node, (Suppress, *BATCHED)) or (isinstance(node, StreamTableJoin) and node.grace is not None)
