"""Steps in the user's own words."""

from __future__ import annotations

from dataclasses import dataclass

from millstream.plan.node import Node
from millstream.processors import Factory, StoreUse
from millstream.serdes import Serde


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Process(Node):
    """Hand each record to a processor, which forwards what it likes; keys may change.

    ``starts`` says that there is something to do before the first record.
    """

    source: Node
    factory: Factory
    stores: tuple[StoreUse, ...] = ()
    starts: bool = False
    key: Serde | None = None
    value: Serde | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ProcessValues(Node):
    """Hand each record to a processor that keeps its key."""

    source: Node
    factory: Factory
    stores: tuple[StoreUse, ...] = ()
    starts: bool = False
    value: Serde | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TransformValues(Node):
    """Replace the value of each row of a table by what a transformer makes of it; it is asked about null values too."""

    source: Node
    factory: Factory
    stores: tuple[StoreUse, ...] = ()
    starts: bool = False
    value: Serde | None = None
    stored: bool = False


PROCESSORS = (Process, ProcessValues, TransformValues)
