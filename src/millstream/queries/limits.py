"""How much a query may read, return and take."""

from __future__ import annotations

import time
from typing import Any

import msgspec

from millstream.errors import QueryLimitError
from millstream.foundation.text import json_line


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of one query, or of all statements of a request; what exceeds them is refused, never cut off."""

    rows: int = 100_000
    """How many rows a query that ends may return."""
    bytes: int = 100 << 20
    """How many bytes its rows may have as JSON."""
    read: int = 10_000_000
    """How many rows or records it may read."""
    read_bytes: int = 2 << 30
    """How many bytes of records it may read from topics, which bounds what it holds in memory."""
    seconds: float = 60.0
    """How long it may take."""


class Budget:
    """What is left of the limits of a running query, or of all queries that share it."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._end = time.monotonic() + limits.seconds
        self._read = self._read_bytes = self._rows = self._bytes = 0

    def check_time(self) -> None:
        """Refuse to go on if the time is up."""
        if time.monotonic() > self._end:
            raise QueryLimitError(
                f"the query takes longer than {self.limits.seconds:g} s",
                hint="look up keys, or shorten the time with WHERE WINDOWSTART or a LIMIT",
                limit=self.limits.seconds,
            )

    def add_read(self, count: int) -> None:
        """Count rows or records; refuse to go on if too many were read."""
        self.check_time()
        self._read += count
        if self._read > self.limits.read:
            raise QueryLimitError(
                f"the query reads more than {self.limits.read:,} rows", hint="look up keys", limit=self.limits.read
            )

    def add_read_bytes(self, count: int) -> None:
        """Count bytes of records as they are read, so that a query over large ones ends before it holds them all."""
        self.check_time()
        self._read_bytes += count
        if self._read_bytes > self.limits.read_bytes:
            raise QueryLimitError(
                f"the query reads more than {self.limits.read_bytes:,} bytes",
                hint="query a stored table, or a topic with less data",
                limit=self.limits.read_bytes,
            )

    def add_rows(self, rows: list[list[Any]]) -> None:
        """Count rows of results; refuse results that are too large."""
        limits = self.limits
        self._rows += len(rows)
        if self._rows > limits.rows:
            raise QueryLimitError(
                f"the query returns {self._rows:,} rows, more than {limits.rows:,}", hint="add LIMIT", limit=limits.rows
            )
        for row in rows:
            self._bytes += len(json_line(row))
            if self._bytes > limits.bytes:
                raise QueryLimitError(
                    f"the query returns more than {limits.bytes:,} bytes",
                    hint="add LIMIT, or select fewer columns",
                    limit=limits.bytes,
                )
