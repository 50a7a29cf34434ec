"""Joins of two streams."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from millstream.functions import Function
from millstream.plan.node import Node
from millstream.serdes import Serde
from millstream.windows import JoinWindow


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StreamStreamJoin(Node):
    """Join the records of two streams that have the same key and lie close enough in time."""

    left: Node
    right: Node
    joiner: Function
    kind: Literal["inner", "left", "outer"]
    within: JoinWindow
    value: Serde | None = None


JOINS = (StreamStreamJoin,)
