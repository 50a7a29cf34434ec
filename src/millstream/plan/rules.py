"""The rewrites that turn the topology as defined into the plan that runs, in order."""

from __future__ import annotations

import dataclasses
from typing import Any

from millstream.plan.declared import declared_serdes
from millstream.plan.foreign_keys import (
    ForeignKeyAnswer,
    ForeignKeyJoin,
    ForeignKeyMissing,
    ForeignKeyResult,
    ForeignKeySubscribe,
)
from millstream.plan.joins import StreamGlobalJoin, StreamStreamJoin
from millstream.plan.names import name_nodes
from millstream.plan.node import Node, Nodes, consumers, rewrite
from millstream.plan.repartitions import insert_repartitions
from millstream.plan.same_keys import merge_same_keys
from millstream.plan.stateful import Count, StreamTableJoin, WindowedAggregate
from millstream.plan.stateless import Repartition
from millstream.serdes import READABLE


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
        result = ForeignKeyResult(answers=tuple(answers), name=node.name, value=node.value, named=node.named)
        return [*steps, result]

    return rewrite(nodes, step)


def allow_null_keys(nodes: Nodes) -> Nodes:
    """Let records without a key cross an edge if a left or outer join anywhere downstream emits them (KIP-962)."""
    readers, originals = consumers(nodes), iter(nodes)
    needing: set[Node] = set()
    for node in reversed(nodes):
        if any(_emits_null_keys(reader) or reader in needing for reader, _ in readers[node]):
            needing.add(node)

    def step(node: Node) -> list[Node]:
        original = next(originals)
        if isinstance(node, Repartition) and original in needing:
            return [dataclasses.replace(node, null_keys=True)]
        return [node]

    return rewrite(nodes, step)


def _emits_null_keys(node: Node) -> bool:
    outer = isinstance(node, StreamStreamJoin) and node.kind != "inner"
    return outer or (isinstance(node, StreamTableJoin | StreamGlobalJoin) and node.left)


RULES = (name_nodes, merge_same_keys, insert_repartitions, expand_foreign_keys, allow_null_keys, drop_unused_values)
