"""Steps that keep something per key, and the turns between stream and table."""

from __future__ import annotations

from dataclasses import dataclass

from millstream.functions import AnyFunction, Function
from millstream.plan.node import Node
from millstream.serdes import Serde


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Count(Node):
    """Count the records of each key; records with null key or value are dropped."""

    source: Node


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Reduce(Node):
    """Combine the values of each key; the first value is the first result."""

    source: Node
    reducer: Function
    value: Serde | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Aggregate(Node):
    """Add the values of each key to an aggregate; an aggregate of None deletes the row."""

    source: Node
    initial: AnyFunction
    adder: Function
    value: Serde | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ToTable(Node):
    """Take each record as the new row of its key; null value deletes, null key is dropped."""

    source: Node
    key: Serde | None = None
    value: Serde | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ToStream(Node):
    """Each change of a table as a record; a deleted row is a null value."""

    source: Node


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StreamTableJoin(Node):
    """Look up the table's row of each stream record; table changes emit nothing."""

    stream: Node
    table: Node
    joiner: Function
    left: bool
    value: Serde | None = None


STATEFUL = (Count, Reduce, Aggregate, ToTable, ToStream, StreamTableJoin)
AGGREGATIONS = (Count, Reduce, Aggregate)
