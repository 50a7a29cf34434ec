"""Where records come from."""

from __future__ import annotations

from dataclasses import dataclass

from millstream.functions import Function
from millstream.names import check_name
from millstream.plan.node import Node
from millstream.serdes import Serde


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Source(Node):
    """Records of one or several topics; ``timestamp`` computes event time from a record."""

    topics: tuple[str, ...]
    key: Serde
    value: Serde
    timestamp: Function | None = None

    def __post_init__(self) -> None:
        for topic in self.topics:
            check_name("topic", topic)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StreamSource(Source):
    """Every record is a fact of its own."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TableSource(Source):
    """Every record is the new row of its key; a null value deletes the row, a null key is dropped.

    ``named`` says that the user gave it a name. With ``history`` (milliseconds) the newest record by timestamp wins,
    and older versions of a row are kept for so long.
    """

    named: bool = False
    history: int | None = None


SOURCES = (StreamSource, TableSource)
