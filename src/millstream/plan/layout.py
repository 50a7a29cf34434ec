"""How many partitions each stage has, and with that its tasks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from millstream.errors import DefinitionError
from millstream.plan.foreign_keys import ForeignKeyAnswer, ForeignKeySubscribe
from millstream.plan.joins import StreamStreamJoin
from millstream.plan.node import Node, inputs
from millstream.plan.sources import Source
from millstream.plan.stages import Stage, shared_stores
from millstream.plan.stateful import Aggregate, StreamTableJoin, WindowedAggregate
from millstream.plan.stateless import Repartition
from millstream.plan.tables import TableTableJoin
from millstream.plan.topology import Plan


@dataclass(frozen=True)
class Layout:
    """A plan with the number of partitions of each of its stages; tasks are numbered stage by stage."""

    plan: Plan
    partitions: tuple[int, ...]

    @classmethod
    def of(cls, plan: Plan, topics: Mapping[str, int], *, otherwise: int = 1) -> Layout:
        """Lay out a plan over topics with these numbers of partitions; ``otherwise`` if no topic matches a pattern."""
        counts: dict[str, int] = {}
        writer = {node: stage.name for stage in plan.stages for node in stage.nodes}
        for stage in plan.stages:
            if stage.name not in counts:  # all rounds of a stage have the tasks of its first one
                sources = [node for node in stage.heads if isinstance(node, Source)]
                edges = [node for node in stage.heads if isinstance(node, Repartition)]
                fixed = [
                    max(topics[topic] for topic in found) for one in sources if (found := one.topics_among(topics))
                ]
                fixed += [edge.partitions for edge in edges if edge.partitions]
                senders = [writer[like] for edge in edges if (like := _spread_like(edge)) is not None]
                free = [counts[sender] for sender in senders if sender in counts]
                counts[stage.name] = max(fixed or free or [otherwise])
                _check_copartitioned(stage, counts[stage.name], topics)
                _check_sharing(stage, counts[stage.name], topics)
        return cls(plan, tuple(counts[stage.name] for stage in plan.stages))

    @cached_property
    def first_task(self) -> tuple[int, ...]:
        """The number of each stage's first task."""
        firsts = [0]
        for count in self.partitions:
            firsts.append(firsts[-1] + count)
        return tuple(firsts)

    @cached_property
    def tasks(self) -> tuple[tuple[int, int], ...]:
        """All tasks as (number of the stage, partition)."""
        return tuple((stage, part) for stage, count in enumerate(self.partitions) for part in range(count))

    @cached_property
    def reading_stage(self) -> dict[Repartition, int]:
        """The number of the stage that reads each edge."""
        return {
            node: number
            for number, stage in enumerate(self.plan.stages)
            for node in stage.inputs
            if isinstance(node, Repartition)
        }

    def tasks_on(self, level: int) -> list[int]:
        """Return the numbers of the tasks on a level."""
        stages = self.plan.stages
        return [number for number, (stage, _) in enumerate(self.tasks) if stages[stage].level == level]


def _spread_like(edge: Repartition) -> Repartition | None:
    """Return the edge whose sender an edge has its number of partitions from, if it does not bow to its readers."""
    if isinstance(edge.source, ForeignKeySubscribe):
        return None  # the other side has its own number
    if isinstance(edge.source, ForeignKeyAnswer):
        assert isinstance(edge.source.subscriptions, Repartition)
        return edge.source.subscriptions  # answers go back to where the questions came from
    return edge


MEETINGS = (StreamStreamJoin, StreamTableJoin, TableTableJoin, Aggregate, WindowedAggregate)
"""Nodes whose inputs meet by key, so that they must be spread alike."""


def _check_copartitioned(stage: Stage, count: int, topics: Mapping[str, int]) -> None:
    for node in stage.nodes:
        if isinstance(node, MEETINGS):
            if len(inputs(node)) == 1:
                continue
            found = [one for source in inputs(node) for one in _partitions_of(source, count, topics)]
            if not found:
                continue  # no topic matches yet
            left, right = min(found, key=lambda one: one[1]), max(found, key=lambda one: one[1])
            verb = "cogroup" if isinstance(node, Aggregate | WindowedAggregate) else "join"
            if left[1] != right[1]:
                raise DefinitionError(
                    f"cannot {verb} {left[0]!r} ({left[1]} partitions) with {right[0]!r} ({right[1]} partitions): "
                    "both sides must have the same number",
                    hint=f"repartition one side: .repartition({right[1]})",
                    node=node.name,
                )


def _check_sharing(stage: Stage, count: int, topics: Mapping[str, int]) -> None:
    """Steps that share a store meet there by key too."""
    users: dict[str, tuple[str, int]] = {}
    for node in (*stage.heads, *stage.nodes):
        for name in shared_stores(node):
            for origin, partitions in _partitions_of(node, count, topics):
                first, expected = users.setdefault(name, (origin, partitions))
                if partitions != expected:
                    raise DefinitionError(
                        f"steps behind {first!r} ({expected} partitions) and {origin!r} ({partitions} partitions) "
                        f"share the store {name!r}: both must have the same number",
                        hint=f"repartition one of them: .repartition({max(expected, partitions)})",
                        node=node.name,
                    )


def _partitions_of(node: Node, count: int, topics: Mapping[str, int]) -> list[tuple[str, int]]:
    """Return where the records of a join's input come from, each with its number of partitions."""
    if isinstance(node, Source):
        return [(topic, topics[topic]) for topic in node.topics_among(topics)]
    if isinstance(node, Repartition):
        return [(node.name or "", node.partitions or count)]
    sources = inputs(node)[:1] if isinstance(node, StreamTableJoin) else inputs(node)
    return [one for source in sources for one in _partitions_of(source, count, topics)]
