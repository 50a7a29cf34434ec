"""Insert repartition edges: where records have to move to the task of their key."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

from millstream.errors import DefinitionError
from millstream.plan.alerts import ALERTS
from millstream.plan.declared import Declared, declared_serdes
from millstream.plan.joins import StreamStreamJoin
from millstream.plan.node import Node, Nodes, fold, inputs, rewrite
from millstream.plan.processors import Process
from millstream.plan.select import SelectRekeyed
from millstream.plan.sources import Source
from millstream.plan.stateful import AGGREGATIONS, Aggregate, StreamTableJoin, ToTable, WindowedAggregate
from millstream.plan.stateless import REKEYING, MapValues, Repartition
from millstream.plan.tables import TableAggregate, TableGroupBy
from millstream.serdes import READABLE, Serde


class _Need(NamedTuple):
    """An input of a step that needs its records by key."""

    reader: Node
    number: int
    stream: Node
    """The re-keyed stream, before the value that only the reader needs is selected."""
    key: Serde | None
    key_name: str

    @property
    def source(self) -> Node:
        return inputs(self.reader)[self.number]

    @property
    def partitioning(self) -> tuple[Node, str]:
        """Steps for which this is equal can share an edge."""
        return self.stream, self.key_name


def insert_repartitions(nodes: Nodes) -> Nodes:
    """Insert a repartition edge before each step that needs its records by key, where the key may have changed.

    Steps that read the same re-keyed stream share one edge if they partition its keys in the same way. If an edge has
    one reader, an aggregation selects its values before it, so that only these are sent; if it has several, after it.
    """
    needs = {(need.reader, need.number): need for need in _needs(nodes)}
    sources: dict[tuple[Node, str], list[Node]] = {}
    for need in needs.values():
        sources.setdefault(need.partitioning, []).append(need.source)
    shared = {need.source: need for need in needs.values() if len(set(sources[need.partitioning])) > 1}
    edges: dict[tuple[Node, str], Repartition] = {}
    originals = iter(nodes)

    def edge_of(need: _Need, source: Node) -> list[Repartition]:
        """Return the edge in a list if it is new; ``edges`` has it in any case."""
        if need.partitioning in edges:
            return []
        edge = Repartition(source=source, name=_edge_name(need, nodes), key=need.key)
        edges[need.partitioning] = edge
        return [edge]

    def step(node: Node) -> list[Node]:
        original = next(originals)
        new: list[Node] = []
        if _is_selection(original) and original in shared:
            need = shared[original]
            new += edge_of(need, inputs(node)[0])
            return [*new, _with_input(node, 0, edges[need.partitioning])]
        for number in range(len(_inputs_by_key(original))):
            keyed = needs.get((original, number))
            if keyed is None or (_is_selection(keyed.source) and keyed.source in shared):
                continue
            new += edge_of(keyed, inputs(node)[number])
            node = _with_input(node, number, edges[keyed.partitioning])
        return [*new, node]

    return rewrite(nodes, step)


def _needs(nodes: Nodes) -> list[_Need]:
    rekeyed, declared = rekeyed_nodes(nodes), declared_serdes(nodes)
    needs = []
    for node in nodes:
        for number, source in enumerate(_inputs_by_key(node)):
            if rekeyed[source]:
                stream = inputs(source)[0] if _is_selection(source) else source
                key = _key_of_partner(node, number, declared)
                needs.append(_Need(node, number, stream, key, (key or declared[source].key or READABLE).name))
    return needs


def _is_selection(node: Node) -> bool:
    """Whether a step only selects what one aggregation reads."""
    return isinstance(node, MapValues) and node.measure is not None


def _edge_name(need: _Need, nodes: Nodes) -> str:
    reader = need.reader.name
    name = f"{reader}-repartition" if need.number == 0 else f"{reader}-repartition-{need.number + 1}"
    if any(other.name == name for other in nodes):
        raise DefinitionError(
            f"{name!r} is the name of the edge that {reader!r} needs, and of another node",
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
    if isinstance(node, (*AGGREGATIONS, *ALERTS, ToTable, TableAggregate, StreamStreamJoin)):
        return inputs(node)
    return (node.stream,) if isinstance(node, StreamTableJoin) else ()


def _key_of_partner(node: Node, number: int, declared: dict[Node, Declared]) -> Serde | None:
    """Return the key serde of the other side if a re-keyed stream has none: both must be partitioned alike."""
    if isinstance(node, StreamTableJoin | StreamStreamJoin) and declared[inputs(node)[number]].key is None:
        return declared[inputs(node)[1 - number]].key
    return None


def rekeyed_nodes(nodes: Nodes) -> dict[Node, bool]:
    """Return for each node whether its records may be in another task than their key requires."""

    def step(node: Node, sources: tuple[bool, ...]) -> bool:
        if isinstance(node, (*REKEYING, SelectRekeyed, TableGroupBy, Process)):
            return True
        if isinstance(node, (Source, Repartition)) or _inputs_by_key(node):
            return False
        return any(sources)

    return fold(nodes, step)
