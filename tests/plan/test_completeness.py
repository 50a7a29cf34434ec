"""Every node kind must be handled by every traversal of the plan."""

import pytest

from millstream.operators import build
from millstream.operators.runtime import operator
from millstream.plan import (
    alerts,
    declared,
    foreign_keys,
    joins,
    processors,
    sinks,
    sources,
    stateful,
    stateless,
    suppress,
    tables,
)
from millstream.plan.node import Node

FAMILIES = (sources, stateless, stateful, tables, joins, foreign_keys, processors, alerts, suppress, sinks)
KINDS = (
    *(*sources.SOURCES, *stateless.STATELESS, *stateful.STATEFUL, *tables.TABLES, *joins.JOINS),
    *(*foreign_keys.FOREIGN_KEYS, *processors.PROCESSORS, *alerts.ALERTS, *suppress.SUPPRESSIONS, *sinks.SINKS),
)
WITHOUT_OPERATOR = {sources.StreamSource, sources.GlobalTableSource, foreign_keys.ForeignKeyJoin}
"""Nodes without an operator: their records go directly to the readers, or a rule replaces the node."""
TYPE_PRESERVING = {
    *(stateless.Filter, stateless.Peek, stateless.Foreach, stateless.Merge, stateless.Split, stateless.Branch),
    stateful.ToStream,
    tables.TableFilter,
    suppress.Suppress,
}
"""Nodes that keep the types of keys and values, which is the default of the traversal."""


def test_the_families_list_all_their_nodes() -> None:
    defined = {
        kind
        for family in FAMILIES
        for kind in vars(family).values()
        if isinstance(kind, type) and issubclass(kind, Node) and kind.__module__ == family.__name__
    }
    assert defined - {sources.Source} == set(KINDS)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_node_has_an_operator(kind: type[Node]) -> None:
    assert build.FAMILIES
    has_operator = operator.dispatch(kind) is not operator.dispatch(object)
    assert has_operator != (kind in WITHOUT_OPERATOR)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_node_declares_its_types_or_preserves_them(kind: type[Node]) -> None:
    registry = declared._declared
    assert (registry.dispatch(kind) is registry.dispatch(object)) == (kind in TYPE_PRESERVING)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_node_is_frozen_and_compared_by_identity(kind: type[Node]) -> None:
    assert kind.__dataclass_params__.frozen  # type: ignore[attr-defined]
    assert kind.__eq__ is object.__eq__
    assert "__dict__" not in dir(kind)
