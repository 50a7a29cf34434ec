"""Joins of two streams, and of a stream with a global table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from millstream.foundation.names import check_name
from millstream.functions import Function
from millstream.plan.node import Node
from millstream.serdes import Serde
from millstream.windows import JoinWindow


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StreamStreamJoin(Node):
    """Join the records of two streams that have the same key and are close enough in time."""

    left: Node
    right: Node
    joiner: Function
    kind: Literal["inner", "left", "outer"]
    within: JoinWindow
    value: Serde | None = None
    late_to: str | None = None

    def __post_init__(self) -> None:
        if self.late_to is not None:
            check_name("topic", self.late_to)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StreamGlobalJoin(Node):
    """Look up a row of the global table of ``topic`` by the key that ``key_of`` computes, or by the record's key."""

    stream: Node
    topic: str
    key_of: Function | None
    joiner: Function
    left: bool
    value: Serde | None = None


JOINS = (StreamStreamJoin, StreamGlobalJoin)
