"""The rewrites that turn what the user wrote into what runs, in order."""

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
    """Put a re-keying edge before each step that needs its records by key, where the key may have changed.

    Steps that read the same re-keyed stream share one edge, if they agree on how keys are spread over tasks.
    """
    moved = _moved(nodes)
    declared = declared_serdes(nodes)
    edges: dict[tuple[Node, str], Repartition] = {}
    originals = iter(nodes)

    def step(node: Node) -> list[Node]:
        original = next(originals)
        new: list[Node] = []
        for number, read in enumerate(_inputs_by_key(original)):
            if not moved[read]:
                continue
            key = _key_of_partner(original, number, declared)
            spread = (read, (key or declared[read].key or READABLE).name)
            if spread not in edges:
                name = _edge_name(node, number, nodes)
                edges[spread] = Repartition(source=inputs(node)[number], name=name, key=key)
                new.append(edges[spread])
            node = _reading(node, number, edges[spread])
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


def _reading(node: Node, number: int, edge: Repartition) -> Node:
    """Return the node with the edge as the input of that number."""
    changes: dict[str, Any]
    if isinstance(node, Aggregate | WindowedAggregate) and number > 0:
        changes = {"others": (*node.others[: number - 1], edge, *node.others[number:])}
    elif isinstance(node, StreamStreamJoin):
        changes = {"left" if number == 0 else "right": edge}
    else:
        changes = {"stream" if isinstance(node, StreamTableJoin) else "source": edge}
    return dataclasses.replace(node, **changes)


def _inputs_by_key(node: Node) -> Nodes:
    """Return the inputs that must be partitioned by their key and may not be; they are the node's first ones."""
    if isinstance(node, (*AGGREGATIONS, ToTable, TableAggregate, StreamStreamJoin)):
        return inputs(node)
    return (node.stream,) if isinstance(node, StreamTableJoin) else ()


def _key_of_partner(node: Node, number: int, declared: dict[Node, Declared]) -> Serde | None:
    """A re-keyed stream must be spread over tasks as the stream or table that it meets there."""
    if isinstance(node, StreamTableJoin | StreamStreamJoin) and declared[inputs(node)[number]].key is None:
        return declared[inputs(node)[1 - number]].key
    return None


def _moved(nodes: Nodes) -> dict[Node, bool]:
    """Return for each node whether its records may lie on the wrong task for their key."""

    def step(node: Node, sources: tuple[bool, ...]) -> bool:
        if isinstance(node, (*REKEYING, TableGroupBy, Process)):
            return True
        if isinstance(node, (Source, Repartition)) or _inputs_by_key(node):
            return False
        return any(sources)

    return fold(nodes, step)


def leave_values_behind(nodes: Nodes) -> Nodes:
    """Send no values over an edge whose readers only count: they need not be encoded, stored, moved and decoded."""
    readers = consumers(nodes)
    originals = iter(nodes)

    def step(node: Node) -> list[Node]:
        reading = readers[next(originals)]
        if isinstance(node, Repartition) and reading and all(_only_counts(reader) for reader, _ in reading):
            return [dataclasses.replace(node, carries_values=False)]
        return [node]

    return rewrite(nodes, step)


def _only_counts(node: Node) -> bool:
    if isinstance(node, WindowedAggregate):
        return node.counts and node.late_to is None  # late records go to their topic with their values
    return isinstance(node, Count)


def expand_foreign_keys(nodes: Nodes) -> Nodes:
    """Put the steps of a foreign-key join in its place: the result has its name, the others have names made of it."""
    declared = declared_serdes(nodes)
    originals = iter(nodes)

    def step(node: Node) -> list[Node]:
        original = next(originals)
        if not (isinstance(node, ForeignKeyJoin) and isinstance(original, ForeignKeyJoin)):
            return [node]
        left, right = declared[original.left], declared[original.right]
        asks: dict[str, Any] = {"foreign_key": node.foreign_key, "source": node.left}
        joins: dict[str, Any] = {"joiner": node.joiner, "value": node.value}
        subscribe = ForeignKeySubscribe(name=f"{node.name}-subscribe", keeps_left=node.keeps_left, **asks)
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
            missing = ForeignKeyMissing(name=f"{node.name}-missing", **asks, **joins)
            answers.append(Repartition(source=missing, name=f"{node.name}-missing-response", key=left.key or READABLE))
            steps += [missing, answers[-1]]
        return [*steps, ForeignKeyResult(answers=tuple(answers), name=node.name, value=node.value)]

    return rewrite(nodes, step)


def let_null_keys_through(nodes: Nodes) -> Nodes:
    """Let records without a key cross an edge if a left or outer join anywhere downstream emits them (KIP-962)."""
    readers = consumers(nodes)
    originals = iter(nodes)

    def is_wanted(edge: Node) -> bool:
        return any(_takes_null_keys(reader) or is_wanted(reader) for reader, _ in readers[edge])

    def step(node: Node) -> list[Node]:
        original = next(originals)
        if isinstance(node, Repartition) and is_wanted(original):
            return [dataclasses.replace(node, null_keys=True)]
        return [node]

    return rewrite(nodes, step)


def _takes_null_keys(node: Node) -> bool:
    outer = isinstance(node, StreamStreamJoin) and node.kind != "inner"
    return outer or (isinstance(node, StreamTableJoin) and node.left)


RULES = (name_nodes, insert_repartitions, expand_foreign_keys, let_null_keys_through, leave_values_behind)
