"""Joins of two tables in which the left row names the key of the right row.

What the user writes is one node. It runs as several: left rows subscribe at the task that owns the right row, which
answers now and whenever the right row changes; the answers go to the task that owns the left key.
"""

from __future__ import annotations

from dataclasses import dataclass

from millstream.functions import Function
from millstream.plan.node import Node
from millstream.serdes import Serde


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ForeignKeyJoin(Node):
    """Join each left row with the right row whose key ``foreign_key`` computes from it; the key is the left one."""

    left: Node
    right: Node
    foreign_key: Function
    joiner: Function
    keeps_left: bool
    value: Serde | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ForeignKeySubscribe(Node):
    """Tell the owner of the right row about a changed left row: subscribe, or take a subscription back."""

    source: Node
    foreign_key: Function
    keeps_left: bool


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ForeignKeyMissing(Node):
    """Answer for left rows that have no foreign key, and for deleted ones, if left rows are kept in any case."""

    source: Node
    foreign_key: Function
    joiner: Function
    value: Serde | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ForeignKeyAnswer(Node):
    """Keep subscriptions, and answer them with the joined row when they come and when the right row changes."""

    subscriptions: Node
    right: Node
    joiner: Function
    keeps_left: bool
    left_value: Serde | None = None
    value: Serde | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ForeignKeyResult(Node):
    """The joined table: the answers to the newest version of each left row."""

    answers: tuple[Node, ...]
    value: Serde | None = None


FOREIGN_KEYS = (ForeignKeyJoin, ForeignKeySubscribe, ForeignKeyMissing, ForeignKeyAnswer, ForeignKeyResult)
