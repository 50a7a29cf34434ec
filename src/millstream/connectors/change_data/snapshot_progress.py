"""How far the snapshots of tables are; part of a position."""

from __future__ import annotations

from collections.abc import Sequence

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


def with_tables(
    done: Sequence[str], progress: SnapshotProgress, tables: Sequence[str], *, reads_rows: bool
) -> tuple[tuple[str, ...], SnapshotProgress]:
    """Return which tables are done, and the snapshot of those that were not read before; others are forgotten.

    >>> with_tables(["a", "b"], SnapshotProgress(("c",), rows=7), ["b", "c", "d"], reads_rows=True)
    (('b',), SnapshotProgress(tables=('c', 'd'), after=None, rows=7, barrier=0))
    """
    known = [table for table in done if table in tables]
    left = [table for table in progress.tables if table in tables]
    added = [table for table in tables if table not in known and table not in left]
    if not reads_rows:
        known, added = [*known, *added], []
    continues = progress.tables[:1] == tuple(left[:1])
    continued = progress if continues else SnapshotProgress(barrier=progress.barrier)
    return tuple(known), msgspec.structs.replace(continued, tables=(*left, *added))
