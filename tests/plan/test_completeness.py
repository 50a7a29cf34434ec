"""A node kind that somebody adds must be known to every walk over the plan."""

import pytest

from millstream.operators import build
from millstream.operators.runtime import operator
from millstream.plan import (
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

FAMILIES = (sources, stateless, stateful, tables, joins, foreign_keys, processors, suppress, sinks)
KINDS = (
    *(*sources.SOURCES, *stateless.STATELESS, *stateful.STATEFUL, *tables.TABLES, *joins.JOINS),
    *(*foreign_keys.FOREIGN_KEYS, *processors.PROCESSORS, *suppress.SUPPRESSIONS, *sinks.SINKS),
)
HEADS = {sources.StreamSource, sources.GlobalTableSource, foreign_keys.ForeignKeyJoin}
"""Nobody calls these: their records go straight to the readers, or a rule puts other nodes in their place."""
PASS_ON = {
    *(stateless.Filter, stateless.Peek, stateless.Foreach, stateless.Merge, stateless.Split, stateless.Branch),
    stateful.ToStream,
    tables.TableFilter,
    suppress.Suppress,
}
"""Records leave these with the types with which they came, which is what a walk assumes if it is told nothing."""


def test_the_families_list_all_of_their_nodes() -> None:
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
    known = operator.dispatch(kind) is not operator.dispatch(object)
    assert known != (kind in HEADS)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_node_says_what_it_declares_or_passes_it_on(kind: type[Node]) -> None:
    registry = declared._leaving
    assert (registry.dispatch(kind) is registry.dispatch(object)) == (kind in PASS_ON)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_node_is_frozen_and_known_by_identity(kind: type[Node]) -> None:
    assert kind.__dataclass_params__.frozen  # type: ignore[attr-defined]
    assert kind.__eq__ is object.__eq__
    assert "__dict__" not in dir(kind)
