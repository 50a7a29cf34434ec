"""The reader of a windowed table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from millstream.errors import UnknownTableError
from millstream.foundation.object_codec import encode_key
from millstream.foundation.type_variables import Key, Value
from millstream.records import Windowed
from millstream.serdes import Serde
from millstream.state.entries import Entry
from millstream.state.segments import observed_time, position_layout, scan_key, scan_timed, stream_time
from millstream.tables.rows import Copies, Row, TableEntry, TableReader
from millstream.windows import FOREVER, SessionWindows, SlidingWindows


class WindowTableReader(TableReader[Windowed[Key], Value]):
    """A read-only windowed table; its keys are ``Windowed(key, start, end)``."""

    has_windows = True

    def __init__(
        self, directory: Path, entry: TableEntry, key: Serde, value: Serde, copies: Copies | None = None
    ) -> None:
        super().__init__(directory, entry, key, value, copies)
        assert entry.windows is not None
        self._windows = entry.windows
        self._layout = position_layout(entry.windows)
        self._retention = entry.retention
        self._inclusive = entry.inclusive
        self.has_sessions = isinstance(entry.windows, SessionWindows)

    def row(self, key: Windowed[Key]) -> Row[Windowed[Key], Value] | None:
        """Return the row of a window, or None."""
        return next((row for row in self.windows(key.key) if row.key == key), None)

    def range(self, first: Any = None, last: Any = None, *, reverse: bool = False) -> Iterator[Any]:
        """Raise an error: windows are read by key and time."""
        raise self._has_no_range()

    def prefix(self, text: str, *, reverse: bool = False) -> Iterator[Any]:
        """Raise an error: windows are read by key and time."""
        raise self._has_no_range()

    def _has_no_range(self) -> UnknownTableError:
        return UnknownTableError(
            f"table {self.name!r} has windows", hint="use windows(key), windows_of_all(first, last) or scan(prefix=)"
        )

    def window(self, key: Key, start: int) -> Row[Windowed[Key], Value] | None:
        """Return the row of the window of a key that starts at ``start``, or None."""
        return next(iter(self.windows(key, start=start, stop=start)), None)

    def windows(
        self, key: Key, *, start: int = 0, stop: int = FOREVER, reverse: bool = False
    ) -> list[Row[Windowed[Key], Value]]:
        """Return the windows of a key that start at ``start`` … ``stop`` (milliseconds), in order.

        Sessions are ordered by their ends.
        """
        rows: list[Row[Windowed[Key], Value]] = []
        for path in self._paths_of(key):
            for txn, database in self._snapshot(path):
                entries = scan_key(txn, database, self._decode, self._layout, key)
                rows += self._unexpired(entries, observed_time(txn, database))
        in_range = [row for row in rows if start <= row.key.start <= stop]
        return in_range[::-1] if reverse else in_range

    def windows_of_all(
        self,
        first: Key | None = None,
        last: Key | None = None,
        *,
        start: int = 0,
        stop: int = FOREVER,
        reverse: bool = False,
    ) -> Iterator[Row[Windowed[Key], Value]]:
        """Yield the windows that start at ``start`` … ``stop`` of the keys ``first`` … ``last``, all bounds included.

        They are in the order of storage: tables of updates by segment of time, then key, then time; tables of final
        results by time, then key.
        """
        low, high = None if first is None else encode_key(first), None if last is None else encode_key(last)

        def matches(row: Row) -> bool:
            encoded = encode_key(row.key.key)
            in_range = (low is None or encoded >= low) and (high is None or encoded <= high)
            return in_range and start <= row.key.start <= stop

        by_key = first is not None or last is not None
        by_time = self._inclusive and not (by_key and isinstance(self._windows, SlidingWindows))
        for partition in range(self.partitions):
            rows = self._windows_in(partition, matches, None)
            if by_time:
                rows.sort(key=lambda row: (row.key.start, encode_key(row.key.key)))
            yield from reversed(rows) if reverse else rows

    def sessions(
        self, key: Key, *, earliest_end: int = 0, latest_start: int = FOREVER, reverse: bool = False
    ) -> list[Row[Windowed[Key], Value]]:
        """Return the sessions of a key that end at ``earliest_end`` or later and start by ``latest_start``."""
        rows = self.windows(key, stop=latest_start, reverse=reverse)
        return [row for row in rows if row.key.end >= earliest_end]

    def sessions_of_all(
        self,
        first: Key | None = None,
        last: Key | None = None,
        *,
        earliest_end: int = 0,
        latest_start: int = FOREVER,
        reverse: bool = False,
    ) -> Iterator[Row[Windowed[Key], Value]]:
        """Yield the sessions of the keys ``first`` … ``last``, both included, in the order of storage."""
        rows = self.windows_of_all(first, last, stop=latest_start, reverse=reverse)
        return (row for row in rows if row.key.end >= earliest_end)

    def scan(
        self, *, start: Any = None, stop: Any = None, prefix: str | None = None, limit: int | None = None
    ) -> Iterator[Row[Windowed[Key], Value]]:
        """Yield the unexpired windows of all keys; the bounds apply to the keys inside the windows."""
        first = None if start is None else encode_key(start)
        last = None if stop is None else encode_key(stop)

        def matches(row: Row) -> bool:
            key = row.key.key
            encoded = encode_key(key) if first is not None or last is not None else b""
            return (
                (first is None or encoded >= first)
                and (last is None or encoded < last)
                and (prefix is None or str(key).startswith(prefix))
            )

        for partition in range(self.partitions):
            yield from self._windows_in(partition, matches, limit)

    def partition_rows(self, partition: int) -> list[Row[Windowed[Key], Value]]:
        """Return the unexpired windows of one partition, all after the same batch."""
        return self._windows_in(partition, None, None)

    def _windows_in(
        self, partition: int, matches: Callable[[Row], bool] | None, limit: int | None
    ) -> list[Row[Windowed[Key], Value]]:
        rows: list[Row[Windowed[Key], Value]] = []
        for txn, database in self._snapshot(self._directory / str(partition)):
            entries = (entry for _, entry in scan_timed(txn, database, self._decode, self._layout))
            unexpired = self._unexpired(entries, observed_time(txn, database))
            rows = list(islice(unexpired if matches is None else filter(matches, unexpired), limit))
        return rows

    def stream_time(self, partition: int) -> int | None:
        """Return the stream time that closes the windows of a partition, or None before its first record."""
        for txn, database in self._snapshot(self._directory / str(partition)):
            time = stream_time(txn, database)
            return None if time < 0 else time
        return None

    def _unexpired(self, entries: Iterable[Entry], observed: int) -> Iterator[Row[Windowed[Key], Value]]:
        expired = observed - self._retention
        for entry in entries:
            if entry.position[0] > expired or (self._inclusive and entry.position[0] == expired):
                yield Row(self._windows.window_key(entry.key, entry.position), entry.value, entry.timestamp)

    def __len__(self) -> int:
        return sum(1 for _ in self.scan())
