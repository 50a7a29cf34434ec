"""Names of nodes: given by the user, or derived from the node's inputs.

The name of a stateful node is part of the format of its state, so it must not change when a stateless step is added or
removed: it is the nearest name upstream plus the verb, ``rides.count``. If two such names collide, that is an error,
which the user solves with ``name=``; only tables of one stream, and transformers without a store, are numbered, in
definition order, as in Kafka Streams.
"""

from __future__ import annotations

import dataclasses
import re

from millstream.errors import DefinitionError
from millstream.foundation.names import check_name
from millstream.plan.foreign_keys import ForeignKeyJoin
from millstream.plan.joins import StreamStreamJoin
from millstream.plan.node import Node, Nodes, inputs, rewrite
from millstream.plan.processors import PROCESSORS, TransformValues
from millstream.plan.same_keys import computes_same_key
from millstream.plan.sources import Source
from millstream.plan.stateful import STATEFUL, StreamTableJoin, ToStream, ToTable
from millstream.plan.stateless import Repartition
from millstream.plan.suppress import Suppress
from millstream.plan.tables import TableAggregate

KEEPS_NAME = (
    Source,
    Repartition,
    ForeignKeyJoin,
    StreamStreamJoin,
    Suppress,
    TableAggregate,
    *PROCESSORS,
    *(kind for kind in STATEFUL if kind not in (StreamTableJoin, ToStream)),
)
"""Nodes whose name is stored with state or is the name of a stage."""


def keeps_name(node: Node) -> bool:
    """Whether the name of a node must not depend on other steps."""
    waits = isinstance(node, StreamTableJoin) and node.grace is not None
    return waits or isinstance(node, KEEPS_NAME)


def name_nodes(nodes: Nodes) -> Nodes:
    """Give every node its final name."""
    taken: dict[str, Node] = {}
    roots: dict[Node, str] = {}

    def step(node: Node) -> list[Node]:
        root = _root(node, roots)
        named = dataclasses.replace(node, name=_final_name(node, root, taken))
        assert named.name is not None
        _claim(node, named, taken)
        roots[named] = named.name if node.name or keeps_name(node) else root
        return [named]

    return rewrite(nodes, step)


def _root(node: Node, roots: dict[Node, str]) -> str:
    if isinstance(node, Source):
        return "-".join(node.topics) or re.sub(r"[^A-Za-z0-9._-]+", "_", node.pattern or "").lstrip(".")
    return roots[inputs(node)[0]]


def _final_name(node: Node, root: str, taken: dict[str, Node]) -> str:
    if node.name is not None:
        return check_name(node.verb, node.name)
    if isinstance(node, Source):
        return root
    plain = f"{root}.{node.verb}"
    name, number = plain, 1
    while name in taken and (not keeps_name(node) or _is_numbered(node)):
        number += 1  # in definition order, so that a name does not change when steps are added after it
        name = f"{plain}-{number}"
    return name


def _is_numbered(node: Node) -> bool:
    """Whether nodes of this kind that have the same name are distinguished by their order."""
    is_transformer = isinstance(node, TransformValues) and not node.stores and not node.stored
    return is_transformer or isinstance(node, ToTable | ForeignKeyJoin)


def _claim(node: Node, named: Node, taken: dict[str, Node]) -> None:
    assert named.name is not None
    if named.name in taken and not computes_same_key(taken[named.name], named):
        given = "" if node.name else " (derived from its input, since none was given)"
        is_same = taken[named.name].verb == node.verb  # a cell of a notebook has been run again
        again = "; in a notebook, first run the cell that creates the app again" if is_same else ""
        raise DefinitionError(
            f"two nodes are called {named.name!r}: a {taken[named.name].verb} and a {node.verb}{given}",
            hint=f"give the {node.verb} its own name, for example name={named.name + '_2'!r}{again}",
            name=named.name,
        )
    taken.setdefault(named.name, named)
