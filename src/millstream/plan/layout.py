"""The number of partitions of each stage, and its tasks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType

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
    def of(
        cls,
        plan: Plan,
        topics: Mapping[str, int],
        *,
        otherwise: int = 1,
        before: Mapping[str, int] = MappingProxyType({}),
    ) -> Layout:
        """Return the layout for topics with these partition counts; ``otherwise`` if no topic matches a pattern.

        Stages that only read from other stages keep the number of tasks that they had ``before``, by name, so that
        their state fits when a source topic gets partitions.
        """
        counts: dict[str, int] = {}
        writer = {node: stage.name for stage in plan.stages for node in stage.nodes}
        for stage in plan.stages:
            if stage.name not in counts:  # all rounds of a stage have the tasks of its first one
                sources = [node for node in stage.heads if isinstance(node, Source)]
                edges = [node for node in stage.heads if isinstance(node, Repartition)]
                fixed = [
                    max(topics[topic] for topic in source_topics)
                    for source in sources
                    if (source_topics := source.topics_among(topics))
                ]
                fixed += [edge.partitions for edge in edges if edge.partitions]
                senders = [writer[origin] for edge in edges if (origin := _partitioning_edge(edge)) is not None]
                free = [counts[sender] for sender in senders if sender in counts]
                kept = [before[stage.name]] if stage.name in before else []
                counts[stage.name] = max(fixed or kept or free or [otherwise])
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

    @property
    def partitions_by_stage(self) -> dict[str, int]:
        """The number of tasks of each stage by its name."""
        return {stage.name: count for stage, count in zip(self.plan.stages, self.partitions, strict=True)}

    def partitions_read(self, topic: str) -> int | None:
        """Return how many partitions of a topic have tasks that read them; None if every task reads all of them."""
        stages = zip(self.plan.stages, self.partitions, strict=True)
        return min((count for stage, count in stages if stage.reads(topic)), default=None)

    def tasks_on(self, level: int) -> list[int]:
        """Return the numbers of the tasks on a level."""
        stages = self.plan.stages
        return [number for number, (stage, _) in enumerate(self.tasks) if stages[stage].level == level]


def _partitioning_edge(edge: Repartition) -> Repartition | None:
    """Return the edge whose sender decides the number of partitions of an edge; None if its readers decide."""
    if isinstance(edge.source, ForeignKeySubscribe):
        return None  # the right table has its own number
    if isinstance(edge.source, ForeignKeyAnswer):
        assert isinstance(edge.source.subscriptions, Repartition)
        return edge.source.subscriptions  # answers return to the tasks that have subscribed
    return edge


CO_PARTITIONED = (StreamStreamJoin, StreamTableJoin, TableTableJoin, Aggregate, WindowedAggregate)
"""Nodes whose inputs must be co-partitioned."""


def _check_copartitioned(stage: Stage, count: int, topics: Mapping[str, int]) -> None:
    for node in stage.nodes:
        if isinstance(node, CO_PARTITIONED):
            if len(inputs(node)) == 1:
                continue
            origins = [origin for source in inputs(node) for origin in _partitions_of(source, count, topics)]
            if not origins:
                continue  # no topic matches yet
            left, right = min(origins, key=lambda origin: origin[1]), max(origins, key=lambda origin: origin[1])
            verb = "cogroup" if isinstance(node, Aggregate | WindowedAggregate) else "join"
            if left[1] != right[1]:
                raise DefinitionError(
                    f"cannot {verb} {left[0]!r} ({left[1]} partitions) with {right[0]!r} ({right[1]} partitions): "
                    "both sides must have the same number",
                    hint=f"repartition one side: .repartition({right[1]})",
                    node=node.name,
                )


def _check_sharing(stage: Stage, count: int, topics: Mapping[str, int]) -> None:
    """Reject steps that share a store without being co-partitioned."""
    users: dict[str, tuple[str, int]] = {}
    for node in (*stage.heads, *stage.nodes):
        for name in shared_stores(node):
            for origin, partitions in _partitions_of(node, count, topics):
                first, expected = users.setdefault(name, (origin, partitions))
                if partitions != expected:
                    raise DefinitionError(
                        f"steps after {first!r} ({expected} partitions) and {origin!r} ({partitions} partitions) "
                        f"share the store {name!r}: both must have the same number",
                        hint=f"repartition one of them: .repartition({max(expected, partitions)})",
                        node=node.name,
                    )


def _partitions_of(node: Node, count: int, topics: Mapping[str, int]) -> list[tuple[str, int]]:
    """Return the topics and edges that the records of a node come from, each with its number of partitions."""
    if isinstance(node, Source):
        return [(topic, topics[topic]) for topic in node.topics_among(topics)]
    if isinstance(node, Repartition):
        return [(node.name or "", node.partitions or count)]
    sources = inputs(node)[:1] if isinstance(node, StreamTableJoin) else inputs(node)
    return [origin for source in sources for origin in _partitions_of(source, count, topics)]
