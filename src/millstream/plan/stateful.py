"""Steps that keep state per key, and the conversions between stream and table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from millstream.errors import DefinitionError
from millstream.foundation.aggregation import Aggregation
from millstream.foundation.names import check_name
from millstream.functions import AnyFunction, Function
from millstream.plan.histories import history_of, origin_of_history
from millstream.plan.node import Node
from millstream.serdes import Serde
from millstream.windows import SessionWindows, UnlimitedWindows, Windows


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
    """Add the values of each key to an aggregate; an aggregate of None deletes the row.

    Cogrouped streams add to the same aggregate, each with its own function. With ``ready``, a built-in aggregation, the
    stored state is not the result; ``build`` creates an object from its results.
    """

    source: Node
    others: tuple[Node, ...] = ()
    initial: AnyFunction
    adder: Function
    other_adders: tuple[Function, ...] = ()
    value: Serde | None = None
    ready: Aggregation | None = None
    build: type | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WindowedAggregate(Node):
    """Aggregate the records of each key and window; ``initial`` None takes the first value as the first result.

    ``merger`` merges the aggregates of two sessions. With ``final`` a window is forwarded once, when it has closed.
    Then ``keeps_unemitted`` keeps windows until they are forwarded; otherwise one that closes after its retention,
    because stream time has leapt, is lost, as in Kafka Streams. ``ready`` is as in ``Aggregate``; it gets no null
    values. With ``counts`` values are ignored.
    """

    source: Node
    others: tuple[Node, ...] = ()
    windows: Windows
    initial: AnyFunction | None
    adder: Function
    other_adders: tuple[Function, ...] = ()
    merger: Function | None = None
    final: bool = False
    retention: int | None = None
    value: Serde | None = None
    ready: Aggregation | None = None
    build: type | None = None
    late_to: str | None = None
    counts: bool = False
    keeps_unemitted: Literal[True] | None = None

    def __post_init__(self) -> None:
        if self.late_to is not None:
            check_name("topic", self.late_to)
        needed = self.windows.retention
        if self.retention is not None and self.retention < needed:
            raise DefinitionError(
                f"a retention of {self.retention} ms is too short for windows that need {needed} ms",
                hint="leave it out, or make it at least size plus grace",
            )
        if self.final and isinstance(self.windows, UnlimitedWindows):
            raise DefinitionError("an unlimited window never closes", hint='use emit("updates")')
        if isinstance(self.windows, SessionWindows) and self.merger is None:
            raise DefinitionError("sessions need a function that merges two of them", hint="pass merge=")

    @property
    def kept_for(self) -> int:
        """How long entries are kept, in milliseconds."""
        return self.windows.retention if self.retention is None else self.retention


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ToTable(Node):
    """Take each record as the new row of its key; null value deletes, null key is dropped.

    With ``named`` the user has given it a name; ``history`` is as in ``TableSource``.
    """

    source: Node
    key: Serde | None = None
    value: Serde | None = None
    named: bool = False
    history: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ToStream(Node):
    """Turn each change of a table into a record; a deleted row has a null value."""

    source: Node


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StreamTableJoin(Node):
    """Join each record of the stream with the row of its key; table changes emit nothing.

    With ``grace`` (milliseconds) a record waits for late updates of a table with history.
    """

    stream: Node
    table: Node
    joiner: Function
    left: bool
    value: Serde | None = None
    grace: int | None = None

    def __post_init__(self) -> None:
        if self.grace is None:
            return
        origin = origin_of_history(self.table)
        history = None if origin is None else history_of(origin)
        if history is None:
            raise DefinitionError(
                f"a join with a grace of {self.grace} ms needs a table that keeps its history",
                hint='declare it with history=, for example app.table("prices", history="5 min")',
            )
        if not 0 <= self.grace <= history:
            raise DefinitionError(
                f"a join cannot wait {self.grace} ms for a table with a history of {history} ms",
                hint="make the grace shorter or the history longer",
            )


STATEFUL = (Count, Reduce, Aggregate, WindowedAggregate, ToTable, ToStream, StreamTableJoin)
AGGREGATIONS = (Count, Reduce, Aggregate, WindowedAggregate)
