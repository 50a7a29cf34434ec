"""Sources: where records enter the topology."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from millstream.errors import DefinitionError
from millstream.foundation.names import check_name
from millstream.functions import Function
from millstream.plan.node import Node
from millstream.serdes import Serde
from millstream.timestamps import Clock, OnInvalid


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Source(Node):
    """Records of one or several topics, or of all topics whose whole name matches ``pattern``.

    ``timestamp`` defines the event time, ``on_invalid`` what happens to records without a valid one. Without a record
    for ``idle_after`` (milliseconds) stream time follows the wall clock. Sources that are ``shared`` can read
    the same topic, as a stream and as a table or with other columns.
    """

    topics: tuple[str, ...]
    pattern: str | None = None
    key: Serde
    value: Serde
    timestamp: Function | Clock | None = None
    on_invalid: OnInvalid | None = None
    idle_after: int | None = None
    shared: bool | None = None

    def __post_init__(self) -> None:
        for topic in self.topics:
            check_name("topic", topic)
        try:
            re.compile(self.pattern or "")
        except re.error as error:
            raise DefinitionError(f"pattern {self.pattern!r} is not a regular expression: {error}") from error

    def reads(self, topic: str) -> bool:
        """Whether the source reads a topic."""
        return topic in self.topics or (self.pattern is not None and re.fullmatch(self.pattern, topic) is not None)

    def topics_among(self, topics: Iterable[str]) -> tuple[str, ...]:
        """Return the topics that the source reads: those it names, or those of ``topics`` that match its pattern."""
        return self.topics if self.pattern is None else tuple(sorted(topic for topic in topics if self.reads(topic)))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StreamSource(Source):
    """Every record is an independent event."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TableSource(Source):
    """Every record is the new row of its key; a null value deletes the row, a null key is dropped.

    With ``named`` the user has given it a name. With ``history`` (milliseconds) the newest record by timestamp wins,
    and older versions of a row are kept for that long.
    """

    named: bool = False
    history: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GlobalTableSource(Source):
    """A table of which each host keeps a full copy. It belongs to no stage; joins refer to it by its topic."""

    def __post_init__(self) -> None:
        super(GlobalTableSource, self).__post_init__()
        assert self.timestamp is None, "a global table has the timestamps of its records"


SOURCES = (StreamSource, TableSource, GlobalTableSource)
