"""Steps that hand the records of a batch to a function together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from millstream.functions import Function
from millstream.plan.node import Node
from millstream.serdes import Serde

FrameKind: TypeAlias = Literal["arrow", "pandas", "polars"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MapAsync(Node):
    """Replace the value by the result of a coroutine; many records wait for theirs at the same time."""

    source: Node
    mapper: Function
    value: Serde | None = None
    concurrency: int
    timeout_ms: int
    retries: int
    backoff_ms: int
    rate: float | None = None
    """Calls per second of one task."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MapBatches(Node):
    """Replace the values of many records by the rows of a data frame that a function computes."""

    source: Node
    mapper: Function
    value: Serde | None = None
    frame: FrameKind
    max_records: int


BATCHED = (MapAsync, MapBatches)
"""These hold records back until all records of the batch have been processed."""
