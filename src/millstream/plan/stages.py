"""Stages: the connected parts of a plan between repartition edges, and the levels on which they run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import singledispatch

from millstream.plan.foreign_keys import ForeignKeyAnswer, ForeignKeyResult
from millstream.plan.histories import history_of
from millstream.plan.joins import StreamStreamJoin
from millstream.plan.levels import Head, levels_of_heads
from millstream.plan.node import Node, Nodes, inputs
from millstream.plan.processors import PROCESSORS, Process, ProcessValues, TransformValues
from millstream.plan.sources import GlobalTableSource, Source
from millstream.plan.stateful import AGGREGATIONS, StreamTableJoin, ToTable
from millstream.plan.stateless import Repartition
from millstream.plan.suppress import Suppress
from millstream.plan.tables import TableAggregate
from millstream.plan.writing import order_of_writing
from millstream.processors import StoreSpec, StoreUse, TableSpec, VersionedSpec

HISTORY = "history"
"""The part of a table's store with all versions of rows but the newest."""

BUFFER = "buffer"
"""The store in which records of a join wait for its grace period."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Stage:
    """A part of the plan that runs as one task per partition, or one round of it.

    ``heads`` are its sources and the edges that it reads, ``inputs`` those that are read in this round; ``nodes`` are
    its other nodes, including the edges that it writes. Rounds share name and state; only a cycle has several.
    """

    name: str
    level: int
    round: int
    heads: tuple[Source | Repartition, ...]
    inputs: tuple[Source | Repartition, ...]
    nodes: Nodes

    @property
    def edges_out(self) -> tuple[Repartition, ...]:
        return tuple(node for node in self.nodes if isinstance(node, Repartition))

    @property
    def topics(self) -> tuple[str, ...]:
        sources = (node for node in self.inputs if isinstance(node, Source))
        return tuple(dict.fromkeys(topic for node in sources for topic in node.topics))

    def reads(self, topic: str) -> bool:
        """Whether a topic is read in this round."""
        return any(node.reads(topic) for node in self.inputs if isinstance(node, Source))

    @property
    def stores(self) -> tuple[Node, ...]:
        """Nodes that keep a table."""
        return tuple(node for node in (*self.heads, *self.nodes) if keeps_table(node))

    @property
    def processor_stores(self) -> dict[str, StoreSpec]:
        """The stores of processors by their full names."""
        uses = ((node, use) for node in self.nodes if isinstance(node, PROCESSORS) for use in node.stores)
        return {attached_name(node, use): use.spec for node, use in uses if not isinstance(use.spec, TableSpec)}

    @property
    def store_names(self) -> tuple[str, ...]:
        """The names of all stores of the stage: tables, and stores that only their node reads."""
        return tuple(self.store_owners)

    @property
    def store_owners(self) -> dict[str, Node]:
        """The node of each store; the last one if several share it."""
        return {name: node for node in (*self.heads, *self.nodes) for name in store_names(node)}


def keeps_table(node: Node) -> bool:
    """Whether the node stores a table under its name."""
    from_topic = isinstance(node, Source) and node.verb in ("table_source", "global_table_source")
    tables = (*AGGREGATIONS, ToTable, TableAggregate, ForeignKeyResult)
    return from_topic or isinstance(node, tables) or getattr(node, "stored", False)


def part_name(node: Node, part: str) -> str:
    """Return the name of one of several stores of a node."""
    assert node.name is not None
    return f"{node.name}.{part}" if part else node.name


def attached_name(node: Node, use: StoreUse) -> str:
    """Return the full name of a store that a processor uses: its own, or one that it shares."""
    return use.spec.name or part_name(node, use.local)


@singledispatch
def store_names(node: Node) -> tuple[str, ...]:
    """Return the names of a node's stores."""
    if not keeps_table(node):
        return ()
    name = node.name or ""
    return (name,) if history_of(node) is None else (name, part_name(node, HISTORY))


@store_names.register(StreamTableJoin)
def _waiting(node: StreamTableJoin) -> tuple[str, ...]:
    return () if node.grace is None else (part_name(node, BUFFER),)


@store_names.register(StreamStreamJoin)
def _join_stores(node: StreamStreamJoin) -> tuple[str, ...]:
    waits = node.kind != "inner" and not node.within.eager
    parts = ("left", "right", "unmatched") if waits else ("left", "right")
    return tuple(part_name(node, part) for part in parts)


@store_names.register(ForeignKeyAnswer)
def _subscriptions(node: ForeignKeyAnswer) -> tuple[str, ...]:
    return (part_name(node, "subscriptions"),)


@store_names.register(Suppress)
def _buffer(node: Suppress) -> tuple[str, ...]:
    return (part_name(node, "buffer"),)


@store_names.register(Process)
@store_names.register(ProcessValues)
@store_names.register(TransformValues)
def _attached(node: Process | ProcessValues | TransformValues) -> tuple[str, ...]:
    own = (node.name or "",) if keeps_table(node) else ()
    attached = [(attached_name(node, use), use.spec) for use in node.stores if not isinstance(use.spec, TableSpec)]
    histories = (f"{name}.{HISTORY}" for name, spec in attached if isinstance(spec, VersionedSpec))
    return (*own, *(name for name, _ in attached), *histories)


def shared_stores(node: Node) -> tuple[str, ...]:
    """Return the names of the stores that a node writes or reads, and so must be in the same task with."""
    tables = (use.spec.name or "" for use in getattr(node, "stores", ()) if isinstance(use.spec, TableSpec))
    return (*store_names(node), *tables)


def cut_into_stages(nodes: Nodes) -> tuple[Stage, ...]:
    """Cut a plan at its repartition edges; stages are in the order of their levels."""
    nodes = tuple(node for node in nodes if not isinstance(node, GlobalTableSource))
    parts = _connected_parts(nodes)
    part_of = {node: part for part in parts for node in part}
    levels = levels_of_heads(parts, part_of)
    written = order_of_writing(nodes)
    stages = [stage for part in parts for stage in _rounds(part, levels, written, nodes, part_of)]
    return tuple(sorted(stages, key=lambda stage: stage.level))


def _connected_parts(nodes: Nodes) -> list[list[Node]]:
    """Group nodes that are connected without a repartition edge; an edge belongs to the part that reads it.

    Nodes that use the same store are connected too, since a store belongs to one task.
    """
    part_of: dict[Node, list[Node]] = {}
    first_users: dict[str, Node] = {}
    for node in nodes:
        part_of[node] = [node]
        sources = () if isinstance(node, Repartition) else inputs(node)
        partners = (first_users.setdefault(name, node) for name in shared_stores(node))
        for neighbour in (*sources, *partners):
            merged, part = part_of[neighbour], part_of[node]
            if merged is not part:
                merged.extend(part)
                part_of.update(dict.fromkeys(part, merged))
    order = {node: number for number, node in enumerate(nodes)}
    unique = {id(part): sorted(part, key=order.__getitem__) for part in part_of.values()}
    return list(unique.values())


def _rounds(
    part: list[Node],
    levels: dict[Head, int],
    order: dict[Repartition, int],
    nodes: Nodes,
    part_of: dict[Node, list[Node]],
) -> Iterator[Stage]:
    heads = tuple(node for node in part if isinstance(node, Source | Repartition))
    inside = set(part) - set(heads)
    written = {node for node in nodes if isinstance(node, Repartition) and part_of[node.source] is part}
    steps = tuple(node for node in nodes if node in inside or node in written)
    assert heads[0].name is not None
    for number, level in enumerate(sorted({levels[head] for head in heads})):
        read = [head for head in heads if levels[head] == level]
        read.sort(key=lambda head: order.get(head, -1) if isinstance(head, Repartition) else -1)
        yield Stage(name=heads[0].name, level=level, round=number, heads=heads, inputs=tuple(read), nodes=steps)
