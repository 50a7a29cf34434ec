"""Steps from table to table. Without a name their result is not stored: lookups compute it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from millstream.errors import DefinitionError
from millstream.foundation.aggregation import Aggregation
from millstream.functions import AnyFunction, Function
from millstream.plan.node import Node
from millstream.serdes import Serde


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TableFilter(Node):
    """Keep rows for which ``predicate`` holds (with ``negate``: does not hold); a failing row is a tombstone."""

    source: Node
    predicate: Function
    negate: bool = False
    stored: bool = False
    needs_old: bool = False
    """Whether its source is stored if it is not yet, so that no tombstones are sent for rows that never passed."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TableMapValues(Node):
    """Replace the value of each row; tombstones pass."""

    source: Node
    mapper: Function
    value: Serde | None = None
    stored: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TableGroupBy(Node):
    """Send each change to the groups of its old and its new row; the value is the pair (new, old)."""

    source: Node
    key_of: Function
    value_of: Function | None
    key: Serde | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TableAggregate(Node):
    """Subtract the old row from a group's aggregate, then add the new one.

    Without ``initial`` the first row is the first aggregate. ``ready`` is as in ``Aggregate``; it aggregates what
    ``select`` returns for a row, unless it is None.
    """

    source: Node
    initial: AnyFunction | None
    adder: Function
    subtractor: Function
    select: Function | None = None
    value: Serde | None = None
    ready: Aggregation | None = None
    build: type | None = None
    history: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TableTableJoin(Node):
    """Join the rows of two tables by key; a change on either side is joined with the current row of the other side."""

    left: Node
    right: Node
    joiner: Function
    kind: Literal["inner", "left", "outer"]
    value: Serde | None = None
    stored: bool = False
    history: int | None = None

    def __post_init__(self) -> None:
        if self.history is not None and not self.stored:
            raise DefinitionError("a join that keeps a history needs a name", hint='pass name="..." beside history=')


TABLES = (TableFilter, TableMapValues, TableGroupBy, TableAggregate, TableTableJoin)
COMPUTED_ON_LOOKUP = (TableFilter, TableMapValues, TableTableJoin)
"""Tables that need no store: lookups compute their rows."""
