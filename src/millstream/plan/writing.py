"""The order in which one record is written to several repartition edges.

Of records with equal timestamps a task takes those first that have waited longest, as in Kafka Streams: those of the
edge that was written first. Edges that no record is written to together stay in the order of their definition.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TypeAlias

from millstream.plan.node import Node, Nodes, consumers
from millstream.plan.sources import Source
from millstream.plan.stateless import Repartition

_Readers: TypeAlias = Mapping[Node, Sequence[tuple[Node, int]]]


def order_of_writing(nodes: Nodes) -> dict[Repartition, int]:
    """Number all edges; where two sources write to edges in different orders, the one that is defined first counts."""
    readers = consumers(nodes)
    edges = [node for node in nodes if isinstance(node, Repartition)]
    earlier: dict[Repartition, set[Repartition]] = {edge: set() for edge in edges}
    for source in (node for node in nodes if isinstance(node, Source)):
        for before, after in pairwise(_written_by(source, readers)):
            if not _is_earlier(after, before, earlier):
                earlier[after].add(before)
    order: dict[Repartition, int] = {}
    while len(order) < len(edges):
        following = next(edge for edge in edges if edge not in order and earlier[edge] <= order.keys())
        order[following] = len(order)
    return order


def _written_by(source: Source, readers: _Readers) -> list[Repartition]:
    """Return the edges that a record of a source reaches: those before the first shuffle, then those behind it."""
    written = _edges_below(source, readers, set())
    for edge in written:  # grows while it is read
        written += [below for below in _edges_below(edge, readers, set()) if below not in written]
    return written


def _edges_below(node: Node, readers: _Readers, seen: set[Node]) -> list[Repartition]:
    """Return the edges to which a record of a node is written, depth first."""
    edges: list[Repartition] = []
    for reader, _ in readers[node]:
        if reader not in seen:
            seen.add(reader)
            edges += [reader] if isinstance(reader, Repartition) else _edges_below(reader, readers, seen)
    return edges


def _is_earlier(edge: Repartition, other: Repartition, earlier: dict[Repartition, set[Repartition]]) -> bool:
    """Whether an edge must come before another."""
    return any(before is edge or _is_earlier(edge, before, earlier) for before in earlier[other])
