"""The tables in which one record of an input can change the same row several times."""

from __future__ import annotations

from typing import NamedTuple

from millstream.plan.foreign_keys import ForeignKeyResult
from millstream.plan.joins import StreamGlobalJoin
from millstream.plan.node import Node, Nodes, fold
from millstream.plan.processors import TransformValues
from millstream.plan.sources import Source
from millstream.plan.stateful import Aggregate, Count, Reduce, StreamTableJoin, ToStream, ToTable
from millstream.plan.stateless import Branch, Filter, Map, MapValues, Merge, Peek, Repartition, SelectKey, Split
from millstream.plan.tables import TableAggregate, TableFilter, TableMapValues, TableTableJoin


class _Changes(NamedTuple):
    heads: frozenset[Node]
    """The inputs of the stage whose records reach a node."""
    are_repeated: bool


def repeating_nodes(nodes: Nodes) -> frozenset[Node]:
    """Return the nodes that may forward several records or changes with the same key for one record of an input."""
    changes = fold(nodes, _changes)
    return frozenset(node for node in nodes if changes[node].are_repeated)


def _changes(node: Node, sources: tuple[_Changes, ...]) -> _Changes:
    if isinstance(node, Source | Repartition):
        return _Changes(frozenset([node]), False)
    heads = frozenset[Node]().union(*(source.heads for source in sources))
    meet_again = sum(len(source.heads) for source in sources) > len(heads)
    repeated = any(source.are_repeated for source in sources) or not _forwards_at_most_one(node)
    return _Changes(heads, repeated or meet_again)


def _forwards_at_most_one(node: Node) -> bool:
    """Whether a node forwards at most one record for each that it gets."""
    if isinstance(node, StreamTableJoin):
        return node.grace is None
    return isinstance(node, _AT_MOST_ONE)


_AT_MOST_ONE = (
    Filter, Map, MapValues, SelectKey, Peek, Merge, Split, Branch, StreamGlobalJoin, Count, Reduce, Aggregate, ToTable,
    ToStream, TransformValues, TableFilter, TableMapValues, TableAggregate, TableTableJoin, ForeignKeyResult,
)  # fmt: skip
