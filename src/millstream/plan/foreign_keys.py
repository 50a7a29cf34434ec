"""Joins of two tables in which the left row contains the key of the right row.

The user defines one node. It runs as several: left rows subscribe at the task that owns the right row, which answers
at once and whenever the right row changes; the answers are sent to the task that owns the left key.
"""

from __future__ import annotations

from dataclasses import dataclass

from millstream.functions import Function
from millstream.plan.node import Node
from millstream.serdes import Serde


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ForeignKeyJoin(Node):
    """Join each left row with the right row whose key ``foreign_key`` computes from it; the key is the left one.

    With ``named`` the user has given it a name.
    """

    left: Node
    right: Node
    foreign_key: Function
    joiner: Function
    keeps_left: bool
    value: Serde | None = None
    named: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ForeignKeySubscribe(Node):
    """Send changes of left rows to the owner of the right row: subscribe or unsubscribe."""

    source: Node
    foreign_key: Function
    keeps_left: bool


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ForeignKeyMissing(Node):
    """Answer for left rows without foreign key, and for deleted ones, in a left join."""

    source: Node
    foreign_key: Function
    joiner: Function
    value: Serde | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ForeignKeyAnswer(Node):
    """Store subscriptions, and answer them with the joined row when they arrive and when the right row changes."""

    subscriptions: Node
    right: Node
    joiner: Function
    keeps_left: bool
    left_value: Serde | None = None
    value: Serde | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ForeignKeyResult(Node):
    """The joined table: the answers for the newest version of each left row."""

    answers: tuple[Node, ...]
    value: Serde | None = None
    named: bool = False


FOREIGN_KEYS = (ForeignKeyJoin, ForeignKeySubscribe, ForeignKeyMissing, ForeignKeyAnswer, ForeignKeyResult)
