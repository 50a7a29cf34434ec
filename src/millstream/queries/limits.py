"""How much a query may read, return and take."""

from __future__ import annotations

import time

import msgspec

from millstream.errors import QueryLimitError
from millstream.foundation.text import json_line


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of one query; what exceeds them is refused, never cut off."""

    rows: int = 100_000
    """How many rows a query that ends may return."""
    bytes: int = 100 << 20
    """How many bytes its rows may have as JSON."""
    read: int = 10_000_000
    """How many rows or records it may read."""
    seconds: float = 60.0
    """How long it may take."""


class Budget:
    """What is left of the limits of a running query."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._end = time.monotonic() + limits.seconds

    def check_time(self) -> None:
        """Refuse to go on if the time is up."""
        if time.monotonic() > self._end:
            raise QueryLimitError(
                f"the query takes longer than {self.limits.seconds:g} s",
                hint="look up keys, or shorten the time with WHERE WINDOWSTART or a LIMIT",
                limit=self.limits.seconds,
            )

    def check_read(self, count: int) -> None:
        """Refuse to go on if too much was read."""
        self.check_time()
        if count > self.limits.read:
            raise QueryLimitError(
                f"the query reads more than {self.limits.read:,} rows", hint="look up keys", limit=self.limits.read
            )

    def check_rows(self, rows: list[list[object]]) -> None:
        """Refuse a result that is too large."""
        limits = self.limits
        if len(rows) > limits.rows:
            raise QueryLimitError(
                f"the query returns {len(rows):,} rows, more than {limits.rows:,}", hint="add LIMIT", limit=limits.rows
            )
        size = 0
        for row in rows:
            size += len(json_line(row))
            if size > limits.bytes:
                raise QueryLimitError(
                    f"the query returns more than {limits.bytes:,} bytes",
                    hint="add LIMIT, or select fewer columns",
                    limit=limits.bytes,
                )
