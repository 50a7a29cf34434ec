"""Which transactions a snapshot of the server sees, by their 64-bit ids."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

_HALF = 1 << 31
_WHOLE = 1 << 32

SNAPSHOT_QUERY = "SELECT pg_current_snapshot()::text"


class VisibleTransactions(msgspec.Struct, frozen=True):
    """A snapshot: all transactions below ``end`` but the running ones are visible."""

    begin: int
    """No transaction below this one is running."""
    end: int
    running: frozenset[int]

    def sees(self, transaction: int) -> bool:
        return transaction < self.end and transaction not in self.running


def parse_snapshot(text: str) -> VisibleTransactions:
    """Read what ``pg_current_snapshot()`` returns.

    >>> snapshot = parse_snapshot("10:14:10,12")
    >>> [snapshot.sees(transaction) for transaction in (9, 10, 11, 14)]
    [True, False, True, False]
    """
    begin, end, running = text.split(":")
    return VisibleTransactions(int(begin), int(end), frozenset(map(int, filter(None, running.split(",")))))


class StreamedTransactions:
    """The transactions that were streamed but that no snapshot has seen yet.

    A transaction is in the log, and streamed, before others can see it; with synchronous replication, it may take as
    long as the standby does. A row that is read in between is older than what was streamed.
    """

    def __init__(self, ids: Iterable[int], newest: int) -> None:
        self._ids = set(ids)
        self._newest = newest

    def widened(self, transaction: int) -> int:
        """Return the 64-bit id of a transaction, which is near the newest known one.

        >>> hex(StreamedTransactions((), 0x2_0000_0005).widened(0xFFFF_FFF0))
        '0x1fffffff0'
        """
        wide = self._newest - self._newest % _WHOLE + transaction
        if wide > self._newest + _HALF:
            wide -= _WHOLE
        elif wide < self._newest - _HALF:
            wide += _WHOLE
        return wide

    def add(self, transaction: int) -> None:
        self._ids.add(transaction)
        self._newest = max(self._newest, transaction)

    def are_seen_by(self, snapshot: VisibleTransactions) -> bool:
        """Forget the transactions that the snapshot sees, since later ones see them too; return whether it sees all."""
        self._newest = max(self._newest, snapshot.end)
        self._ids = {transaction for transaction in self._ids if not snapshot.sees(transaction)}
        return not self._ids

    @property
    def ids(self) -> tuple[int, ...]:
        return tuple(sorted(self._ids))

    def __len__(self) -> int:
        return len(self._ids)
