"""Parts of a plan: what fills tables from the past, and what runs beside it until they are filled."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable

import msgspec

from millstream.plan.node import Node, Nodes, consumers, inputs, rewrite
from millstream.plan.processors import PROCESSORS
from millstream.plan.sinks import SINKS
from millstream.plan.stages import keeps_table, store_names
from millstream.plan.stateless import Foreach, Peek
from millstream.plan.topology import Plan

_EFFECTS = (*SINKS, Foreach, Peek, *PROCESSORS)


class PlanPart(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a plan, as data that can be sent to workers; without names it is the whole plan."""

    filled: tuple[str, ...] = ()
    """The names of the steps that are filled."""
    is_fill: bool = False
    """Whether it is the part that fills them; otherwise it is everything that does not depend on them."""

    def of(self, plan: Plan) -> Plan:
        """Return the part of a plan."""
        if not self.filled:
            return plan
        return Plan(_filling(plan.nodes, self.filled) if self.is_fill else _without(plan.nodes, self.filled))


WHOLE = PlanPart()


def upstream(nodes: Nodes, names: Collection[str]) -> set[Node]:
    """Return the steps with these names and everything that they depend on."""
    needed = {node for node in nodes if node.name in names}
    for node in reversed(nodes):
        if node in needed:
            needed.update(inputs(node))
    return needed


def downstream(nodes: Nodes, names: Collection[str]) -> set[Node]:
    """Return the steps with these names and everything that depends on them."""
    dependent: set[Node] = set()
    for node in nodes:
        if node.name in names or any(source in dependent for source in inputs(node)):
            dependent.add(node)
    return dependent


def _filling(nodes: Nodes, filled: Collection[str]) -> Nodes:
    """Return what computes the filled steps; other steps had their effects when the records were processed."""
    needed = upstream(nodes, filled)

    def step(node: Node) -> Iterable[Node]:
        if isinstance(node, Peek):
            return [node.source]
        if getattr(node, "late_to", None) is not None and node.name not in filled:
            return [dataclasses.replace(node, late_to=None)]  # type: ignore[call-arg]
        return [node]

    return rewrite(tuple(node for node in nodes if node in needed), step)


def _without(nodes: Nodes, filled: Collection[str]) -> Nodes:
    """Return the steps that do not depend on the filled ones, without those that only these have read."""
    dropped = downstream(nodes, filled)
    readers = consumers(nodes)
    for node in reversed(nodes):
        node_readers = [reader for reader, _ in readers[node]]
        is_unused = bool(node_readers) and all(reader in dropped for reader in node_readers)
        if is_unused and not (keeps_table(node) or store_names(node) or isinstance(node, _EFFECTS)):
            dropped.add(node)
    return tuple(node for node in nodes if node not in dropped)
