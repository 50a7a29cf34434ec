"""Errors in expressions that do not stop an app: counted by step and column, with a few samples."""

from __future__ import annotations

from collections import Counter

from millstream.foundation.text import error_text

MAX_SAMPLES = 10


class ValueErrors:
    """The errors of one task in one batch."""

    __slots__ = ("counts", "samples")

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.samples: dict[str, str] = {}
        """For each step and column the last error."""

    def note(self, where: str, error: Exception) -> None:
        """Count an error of an expression, whose value is null."""
        self.counts[where] += 1
        if where in self.samples or len(self.samples) < MAX_SAMPLES:
            self.samples[where] = f"{type(error).__name__}: {error_text(error):.200}"
