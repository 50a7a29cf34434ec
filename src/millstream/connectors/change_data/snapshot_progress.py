"""How far the snapshots of tables are; part of a position."""

from __future__ import annotations

import msgspec


class SnapshotProgress(msgspec.Struct, frozen=True, omit_defaults=True):
    """Tables that are still to be read; the first of them is being read."""

    tables: tuple[str, ...] = ()
    after: tuple[str, ...] | None = None
    """The key of the last row that was read of the first table, as text."""
    rows: int = 0
    """Rows read of the first table."""
    barrier: int = 0
    """Transactions below this id must have ended before a row is read: the table may not have been published then."""
