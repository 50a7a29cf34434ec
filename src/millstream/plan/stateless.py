"""Steps that process one record at a time and keep no state."""

from __future__ import annotations

from dataclasses import dataclass

from millstream.errors import DefinitionError
from millstream.functions import Function
from millstream.plan.node import Node
from millstream.serdes import Serde


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Filter(Node):
    """Keep records for which ``predicate`` holds (with ``negate``: does not hold)."""

    source: Node
    predicate: Function
    negate: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Map(Node):
    """Replace key and value."""

    source: Node
    mapper: Function
    key: Serde | None = None
    value: Serde | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MapValues(Node):
    """Replace the value; the key stays, so no repartitioning is needed.

    With ``measure`` it selects the values of the aggregation of that name, its only reader.
    """

    source: Node
    mapper: Function
    value: Serde | None = None
    measure: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FlatMap(Node):
    """Replace a record by any number of key-value pairs."""

    source: Node
    mapper: Function
    key: Serde | None = None
    value: Serde | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FlatMapValues(Node):
    """Replace the value by any number of values."""

    source: Node
    mapper: Function
    value: Serde | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SelectKey(Node):
    """Replace the key."""

    source: Node
    mapper: Function
    key: Serde | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Peek(Node):
    """Call an action for each record and forward it."""

    source: Node
    action: Function


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Foreach(Node):
    """Call an action for each record; forward nothing."""

    source: Node
    action: Function


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Merge(Node):
    """Records of several streams, interleaved as they are processed."""

    sources: tuple[Node, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Split(Node):
    """Evaluate the predicate once for each record; the two branches of the split read from it."""

    source: Node
    predicate: Function


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Branch(Node):
    """The records of a split for which its predicate holds, or with ``matched=False`` the others."""

    split: Split
    matched: bool


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Repartition(Node):
    """Send each record to the task that owns its key: the repartition edge between two stages.

    A record without a key is dropped and counted, unless ``null_keys`` lets it pass for a left join. Without
    ``carries_values`` the readers only get whether there is a value.
    """

    source: Node
    partitions: int | None = None
    key: Serde | None = None
    value: Serde | None = None
    null_keys: bool = False
    carries_values: bool = True

    def __post_init__(self) -> None:
        if self.partitions is not None and self.partitions < 1:
            raise DefinitionError(f"repartition({self.partitions}) is not valid", hint="use 1 or more partitions")


STATELESS = (
    Filter, Map, MapValues, FlatMap, FlatMapValues, SelectKey, Peek, Foreach, Merge, Split, Branch, Repartition,
)  # fmt: skip
REKEYING = (Map, FlatMap, SelectKey)
"""After these nodes a record may be in another task than its key requires."""
