"""A topology: the nodes as defined, and the plan that is made from them."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

from millstream.errors import DefinitionError
from millstream.foundation.names import check_name
from millstream.plan.declared import Declared, declared_serdes
from millstream.plan.key_types import KeyType, key_types
from millstream.plan.node import Node, Nodes, consumers, inputs
from millstream.plan.old_values import regrouped_tables, sending_old_values
from millstream.plan.repeats import repeating_nodes
from millstream.plan.rules import RULES
from millstream.plan.sinks import Sink
from millstream.plan.sources import GlobalTableSource, Source
from millstream.plan.stages import Stage, cut_into_stages
from millstream.plan.validate import check_depth, check_topology
from millstream.plan.waiting import waiting_nodes

N = TypeVar("N", bound=Node)


class SparkDelivery(NamedTuple):
    """A function that is called with each batch of a topic as a DataFrame, its number and the lineage of numbers."""

    name: str
    function: Callable[[Any, int, str], Any]
    schema: str | None


class SinkStep(NamedTuple):
    """A sink that writes each batch of a topic; plans do not know what a sink is."""

    name: str
    sink: Any


@dataclass(slots=True)
class Draft:
    """Nodes in the order in which the user's verbs created them."""

    app: str = ""
    nodes: dict[Node, None] = field(default_factory=dict)
    """An ordered set, since each verb looks its inputs up."""
    deliveries: dict[str, SparkDelivery | SinkStep] = field(default_factory=dict)
    """What the driver does with topics for Spark and for sinks; it stays in the driver, workers never get it."""
    sources: dict[str, Any] = field(default_factory=dict)
    """What fills topics from other systems, by name; it stays in the driver too."""

    def check_connector_name(self, name: str) -> str:
        """Return a valid name that no other source or sink of the app has."""
        if name in self.sources or any(delivery.name == name for delivery in self.deliveries.values()):
            raise DefinitionError(f"two sources or sinks are named {name!r}", hint="give them different names")
        return check_name("connector", name)

    def add(self, node: N) -> N:
        """Add a node to the topology."""
        for source in inputs(node):
            if source not in self.nodes:
                raise DefinitionError(
                    f"{node.verb} cannot read a {source.verb} of another app",
                    hint="connect apps by a topic: write it with .to() in one app and read it in the other",
                )
        self.nodes[node] = None
        return node

    def remove(self, nodes: Collection[Node]) -> None:
        """Remove nodes, except those that a node that stays reads."""
        kept: list[Node] = []
        read: set[Node] = set()
        for node in reversed(self.nodes):
            if node not in nodes or node in read:
                kept.append(node)
                read.update(inputs(node))
        self.nodes = dict.fromkeys(reversed(kept))


@dataclass(frozen=True)
class Plan:
    """A topology ready to run: named, repartitioned, checked and cut into stages."""

    nodes: Nodes

    @classmethod
    def of(cls, draft: Draft) -> Plan:
        """Return the plan of the nodes defined so far."""
        nodes: Nodes = tuple(draft.nodes)
        check_depth(nodes)
        for rule in RULES:
            nodes = rule(nodes)
        check_topology(nodes)
        plan = cls(nodes)
        _ = plan.stages  # errors appear here, not at run time
        return plan

    @cached_property
    def stages(self) -> tuple[Stage, ...]:
        return cut_into_stages(self.nodes)

    @cached_property
    def readers(self) -> dict[Node, list[tuple[Node, int]]]:
        return consumers(self.nodes)

    @cached_property
    def sending_old(self) -> frozenset[Node]:
        """The tables that send old values to their readers."""
        return sending_old_values(self.nodes)

    @cached_property
    def regrouped(self) -> frozenset[Node]:
        """The tables whose rows are grouped into built-in aggregations."""
        return regrouped_tables(self.nodes)

    @cached_property
    def waiting(self) -> frozenset[Node]:
        """The nodes downstream of nodes that hold records back."""
        return waiting_nodes(self.nodes)

    @cached_property
    def repeating(self) -> frozenset[Node]:
        """The nodes that may forward several records with the same key for one record."""
        return repeating_nodes(self.nodes)

    @cached_property
    def declared(self) -> dict[Node, Declared]:
        return declared_serdes(self.nodes)

    @cached_property
    def key_types(self) -> dict[Node, KeyType | None]:
        """The type of each node's keys, where it is certain."""
        return key_types(self.nodes)

    @property
    def sources(self) -> tuple[Source, ...]:
        return tuple(node for node in self.nodes if isinstance(node, Source))

    @property
    def source_topics(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(topic for node in self.sources for topic in node.topics))

    @property
    def stamped_topics(self) -> frozenset[str]:
        """Topics whose records get the time at which the log appends them."""
        return frozenset(topic for node in self.sources if node.timestamp == "append" for topic in node.topics)

    @property
    def global_tables(self) -> dict[str, GlobalTableSource]:
        """The global tables by topic."""
        return {node.topics[0]: node for node in self.nodes if isinstance(node, GlobalTableSource)}

    @property
    def sink_topics(self) -> tuple[str, ...]:
        """The output topics, except those that are computed for each record."""
        fixed = (node.topic for node in self.nodes if isinstance(node, Sink) and isinstance(node.topic, str))
        late = (topic for node in self.nodes if (topic := getattr(node, "late_to", None)) is not None)
        return tuple(dict.fromkeys((*fixed, *late)))

    @property
    def compacted_topics(self) -> frozenset[str]:
        """Output topics that are created as compacted ones."""
        return frozenset(
            node.topic for node in self.nodes if isinstance(node, Sink) and node.compact and isinstance(node.topic, str)
        )

    @property
    def levels(self) -> int:
        return 1 + max((stage.level for stage in self.stages), default=0)
