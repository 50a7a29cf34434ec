"""What a statement returns: a message, rows, or rows that keep coming."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import msgspec

from millstream.sql.showing import ShownColumn
from millstream.sql.types import STRING

Values = list[Any]
"""The values of a row, by column."""


class Message(msgspec.Struct, frozen=True):
    """A statement that returns no rows."""

    text: str


class Result(msgspec.Struct, frozen=True):
    """All rows of a statement that ends."""

    columns: tuple[ShownColumn, ...]
    rows: list[Values]
    note: str = ""


class Change(msgspec.Struct, frozen=True):
    """A row of a push query; ``is_deleted``: the row of its table is gone, only its key is known."""

    values: Values
    is_deleted: bool = False


class Changes(Protocol):
    """The rows of a query that runs until its limit, or until it is closed."""

    columns: tuple[ShownColumn, ...]

    def take(self, timeout: float) -> list[Change] | None:
        """Return the next rows, none after ``timeout`` seconds without any, None after the last one."""

    def close(self) -> None:
        """End the query; nothing of it is left."""


Answer = Message | Result | Changes


def rows_of(changes: Changes, seconds: float = 0.2) -> Iterator[Change]:
    """Yield rows as they arrive, until the end; closes the query."""
    try:
        while (taken := changes.take(seconds)) is not None:
            yield from taken
    finally:
        changes.close()


def text_columns(*names: str) -> tuple[ShownColumn, ...]:
    """Return columns of text."""
    return tuple(ShownColumn(name, STRING) for name in names)
