"""Errors in expressions that do not stop an app: counted by step and column, with samples and a bounded log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Final

import msgspec

from millstream.foundation.text import error_text

MAX_SAMPLES = 10
MAX_LOGGED: Final = 100
"""How many errors of one task in one batch are written to the processing log; the others are only counted."""


class Origin(msgspec.Struct, frozen=True, kw_only=True):
    """Where a value comes from: the query, its step, the expression, and the record that is processed."""

    query: str = ""
    step: str = ""
    part: str = ""
    """The column or clause of the query."""
    expression: str = ""
    topic: str = ""
    partition: int = -1
    offset: int = -1


class LoggedError(Origin, frozen=True, kw_only=True):
    """A record of the processing log."""

    error: str
    message: str


class ValueErrors:
    """The errors of one task in one batch."""

    __slots__ = ("counts", "is_logging", "logged", "omitted", "samples")

    def __init__(self, *, is_logging: bool = False) -> None:
        self.is_logging = is_logging
        self.counts: Counter[str] = Counter()
        self.samples: dict[str, str] = {}
        """For each step and column the last error."""
        self.logged: list[LoggedError] = []
        """The records for the processing log."""
        self.omitted = 0
        """How many errors are not in the processing log, because there are too many of them."""

    def note(self, where: str, error: Exception, origin: Callable[[], Origin]) -> None:
        """Count an error of an expression, whose value is null; ``origin`` is asked only if errors are logged."""
        self.counts[where] += 1
        if where in self.samples or len(self.samples) < MAX_SAMPLES:
            self.samples[where] = f"{type(error).__name__}: {error_text(error):.200}"
        if not self.is_logging:
            return
        if len(self.logged) == MAX_LOGGED:
            self.omitted += 1
            return
        facts = msgspec.structs.asdict(origin())
        self.logged.append(LoggedError(**facts, error=type(error).__name__, message=f"{error_text(error):.500}"))
