"""The rewrites that turn the topology as defined into the plan that runs, in order."""

from __future__ import annotations

import dataclasses
from typing import Any

from millstream.errors import DefinitionError
from millstream.plan.declared import Declared, declared_serdes
from millstream.plan.foreign_keys import (
    ForeignKeyAnswer,
    ForeignKeyJoin,
    ForeignKeyMissing,
    ForeignKeyResult,
    ForeignKeySubscribe,
)
from millstream.plan.joins import StreamStreamJoin
from millstream.plan.names import name_nodes
from millstream.plan.node import Node, Nodes, consumers, fold, inputs, rewrite
from millstream.plan.processors import Process
from millstream.plan.sources import Source
from millstream.plan.stateful import AGGREGATIONS, Aggregate, Count, StreamTableJoin, ToTable, WindowedAggregate
from millstream.plan.stateless import REKEYING, Repartition
from millstream.plan.tables import TableAggregate, TableGroupBy
from millstream.serdes import READABLE, Serde


def insert_repartitions(nodes: Nodes) -> Nodes:
    """Insert a repartition edge before each step that needs its records by key, where the key may have changed.

    Steps that read the same re-keyed stream share one edge if they partition its keys in the same way.
    """
    rekeyed = _rekeyed(nodes)
    declared = declared_serdes(nodes)
    edges: dict[tuple[Node, str], Repartition] = {}
    originals = iter(nodes)

    def step(node: Node) -> list[Node]:
        original = next(originals)
        new: list[Node] = []
        for number, source in enumerate(_inputs_by_key(original)):
            if not rekeyed[source]:
                continue
            key = _key_of_partner(original, number, declared)
            partitioning = (source, (key or declared[source].key or READABLE).name)
            if partitioning not in edges:
                name = _edge_name(node, number, nodes)
                edges[partitioning] = Repartition(source=inputs(node)[number], name=name, key=key)
                new.append(edges[partitioning])
            node = _with_input(node, number, edges[partitioning])
        return [*new, node]

    return rewrite(nodes, step)


def _edge_name(node: Node, number: int, nodes: Nodes) -> str:
    name = f"{node.name}-repartition" if number == 0 else f"{node.name}-repartition-{number + 1}"
    if any(other.name == name for other in nodes):
        raise DefinitionError(
            f"{name!r} is the name of the edge that {node.name!r} needs, and of another node",
            hint="give that node another name",
            name=name,
        )
    return name


def _with_input(node: Node, number: int, edge: Repartition) -> Node:
    """Return the node with the edge as its input ``number``."""
    changes: dict[str, Any]
    if isinstance(node, Aggregate | WindowedAggregate) and number > 0:
        changes = {"others": (*node.others[: number - 1], edge, *node.others[number:])}
    elif isinstance(node, StreamStreamJoin):
        changes = {"left" if number == 0 else "right": edge}
    else:
        changes = {"stream" if isinstance(node, StreamTableJoin) else "source": edge}
    return dataclasses.replace(node, **changes)


def _inputs_by_key(node: Node) -> Nodes:
    """Return the inputs that must be partitioned by key; they are the node's first ones."""
    if isinstance(node, (*AGGREGATIONS, ToTable, TableAggregate, StreamStreamJoin)):
        return inputs(node)
    return (node.stream,) if isinstance(node, StreamTableJoin) else ()


def _key_of_partner(node: Node, number: int, declared: dict[Node, Declared]) -> Serde | None:
    """Return the key serde of the other side if a re-keyed stream has none: both must be partitioned alike."""
    if isinstance(node, StreamTableJoin | StreamStreamJoin) and declared[inputs(node)[number]].key is None:
        return declared[inputs(node)[1 - number]].key
    return None


def _rekeyed(nodes: Nodes) -> dict[Node, bool]:
    """Return for each node whether its records may be in another task than their key requires."""

    def step(node: Node, sources: tuple[bool, ...]) -> bool:
        if isinstance(node, (*REKEYING, TableGroupBy, Process)):
            return True
        if isinstance(node, (Source, Repartition)) or _inputs_by_key(node):
            return False
        return any(sources)

    return fold(nodes, step)


def drop_unused_values(nodes: Nodes) -> Nodes:
    """Send no values over an edge whose readers only count, which saves encoding, storing and decoding them."""
    readers = consumers(nodes)
    originals = iter(nodes)

    def step(node: Node) -> list[Node]:
        node_readers = readers[next(originals)]
        if isinstance(node, Repartition) and node_readers and all(_only_counts(reader) for reader, _ in node_readers):
            return [dataclasses.replace(node, carries_values=False)]
        return [node]

    return rewrite(nodes, step)


def _only_counts(node: Node) -> bool:
    if isinstance(node, WindowedAggregate):
        return node.counts and node.late_to is None  # late records are written with their values
    return isinstance(node, Count)


def expand_foreign_keys(nodes: Nodes) -> Nodes:
    """Replace a foreign-key join by its steps: the result has its name, the others have names derived from it."""
    declared = declared_serdes(nodes)
    originals = iter(nodes)

    def step(node: Node) -> list[Node]:
        original = next(originals)
        if not (isinstance(node, ForeignKeyJoin) and isinstance(original, ForeignKeyJoin)):
            return [node]
        left, right = declared[original.left], declared[original.right]
        left_side: dict[str, Any] = {"foreign_key": node.foreign_key, "source": node.left}
        joins: dict[str, Any] = {"joiner": node.joiner, "value": node.value}
        subscribe = ForeignKeySubscribe(name=f"{node.name}-subscribe", keeps_left=node.keeps_left, **left_side)
        subscription = Repartition(source=subscribe, name=f"{node.name}-subscription", key=right.key or READABLE)
        answer = ForeignKeyAnswer(
            subscriptions=subscription,
            right=node.right,
            name=f"{node.name}-answer",
            keeps_left=node.keeps_left,
            left_value=left.value,
            **joins,
        )
        response = Repartition(source=answer, name=f"{node.name}-response", key=left.key or READABLE)
        steps: list[Node] = [subscribe, subscription, answer, response]
        answers: list[Node] = [response]
        if node.keeps_left:
            missing = ForeignKeyMissing(name=f"{node.name}-missing", **left_side, **joins)
            answers.append(Repartition(source=missing, name=f"{node.name}-missing-response", key=left.key or READABLE))
            steps += [missing, answers[-1]]
        return [*steps, ForeignKeyResult(answers=tuple(answers), name=node.name, value=node.value)]

    return rewrite(nodes, step)


def allow_null_keys(nodes: Nodes) -> Nodes:
    """Let records without a key cross an edge if a left or outer join anywhere downstream emits them (KIP-962)."""
    readers = consumers(nodes)
    originals = iter(nodes)

    def needs_null_keys(node: Node) -> bool:
        return any(_emits_null_keys(reader) or needs_null_keys(reader) for reader, _ in readers[node])

    def step(node: Node) -> list[Node]:
        original = next(originals)
        if isinstance(node, Repartition) and needs_null_keys(original):
            return [dataclasses.replace(node, null_keys=True)]
        return [node]

    return rewrite(nodes, step)


def _emits_null_keys(node: Node) -> bool:
    outer = isinstance(node, StreamStreamJoin) and node.kind != "inner"
    return outer or (isinstance(node, StreamTableJoin) and node.left)


RULES = (name_nodes, insert_repartitions, expand_foreign_keys, allow_null_keys, drop_unused_values)
