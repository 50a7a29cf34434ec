"""Processors and transformers: steps that the user implements."""

from __future__ import annotations

from dataclasses import dataclass

from millstream.plan.node import Node
from millstream.processors import Factory, StoreUse
from millstream.serdes import Serde


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Process(Node):
    """Pass each record to a processor, which forwards any records; keys may change.

    With ``starts`` the processor has work to do before the first record.
    """

    source: Node
    factory: Factory
    stores: tuple[StoreUse, ...] = ()
    starts: bool = False
    key: Serde | None = None
    value: Serde | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ProcessValues(Node):
    """Pass each record to a processor that keeps its key."""

    source: Node
    factory: Factory
    stores: tuple[StoreUse, ...] = ()
    starts: bool = False
    value: Serde | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TransformValues(Node):
    """Replace the value of each row of a table by the result of a transformer, which also gets null values."""

    source: Node
    factory: Factory
    stores: tuple[StoreUse, ...] = ()
    starts: bool = False
    value: Serde | None = None
    stored: bool = False


PROCESSORS = (Process, ProcessValues, TransformValues)
