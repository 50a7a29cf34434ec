"""The stores that user code works with: dict-like rows, entries by time, sessions, versions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

from millstream.errors import DefinitionError
from millstream.foundation.object_codec import encode_key
from millstream.records import Windowed
from millstream.state.entries import Entry, Position
from millstream.state.keyvalue import KeyValueStore, StoredRow
from millstream.state.timed import TimedStore
from millstream.state.versioned import PutResult, VersionedStore
from millstream.windows import FOREVER


class Timestamped(Protocol):
    """Has the timestamp of the current record."""

    @property
    def timestamp(self) -> int: ...


class _StoreView:
    """The common part of all views: the name, whether the store is writable, and how engine errors are reported.

    ``report_error`` receives errors of the engine, so that user code that catches all exceptions cannot hide them.
    """

    def __init__(
        self, name: str, context: Timestamped, report_error: Callable[[Exception], None], *, writable: bool
    ) -> None:
        self.name = name
        self._context = context
        self._report_error = report_error
        self._writable = writable

    def _check(self, key: Any, *, writing: bool) -> None:
        if writing and not self._writable:
            raise DefinitionError(
                f"store {self.name!r} belongs to a table and is read-only",
                hint="send a record to the table's topic, or use a separate store",
                store=self.name,
            )
        if key is None:
            raise DefinitionError(
                f"store {self.name!r} does not accept the key None", hint="skip records without a key"
            )

    def _write_changes(self, store: KeyValueStore | TimedStore) -> None:
        """Write all changes, so that a scan sees them."""
        try:
            if self._writable:
                store.write_through()
            else:
                store.flush()
        except Exception as error:
            self._report_error(error)
            raise


class KeyValueView(_StoreView):
    """One value for each key, used like a dict; None means no value."""

    def __init__(self, store: KeyValueStore, name: str, *arguments: Any, writable: bool = True) -> None:
        super().__init__(name, *arguments, writable=writable)
        self._store = store

    def get(self, key: Any, default: Any = None) -> Any:
        """Return the value of a key, or ``default``."""
        value = self._row(key).value
        return default if value is None else value

    def put(self, key: Any, value: Any) -> None:
        """Set the value of a key; None deletes it."""
        row = self._row(key, writing=True)
        row.value, row.timestamp = value, self._context.timestamp
        self._store.mark(row)

    def put_if_absent(self, key: Any, value: Any) -> Any:
        """Set the value of a key that has none; return the existing value, or None."""
        existing = self.get(key)
        if existing is None:
            self.put(key, value)
        return existing

    def delete(self, key: Any) -> Any:
        """Delete a key and return its value, or None."""
        value = self.get(key)
        self.put(key, None)
        return value

    def timestamp_of(self, key: Any) -> int | None:
        """Return the timestamp of a row: that of the record that wrote it; None if there is no row."""
        row = self._row(key)
        return None if row.value is None else row.timestamp

    def items(
        self, *, start: Any = None, stop: Any = None, prefix: str | None = None, reverse: bool = False
    ) -> Iterator[tuple[Any, Any]]:
        """Yield keys and values in key order; ``stop`` is not included, ``prefix`` is for text keys."""
        self._write_changes(self._store)
        first = b"" if start is None else encode_key(start)
        last = None if stop is None else encode_key(stop)
        if prefix is not None:
            first, last = encode_key(prefix), encode_key(prefix) + b"\xff"
        rows = ((key, value) for key, value, _ in self._store.items(first, last))
        return iter(list(rows)[::-1]) if reverse else rows

    def __getitem__(self, key: Any) -> Any:
        value = self._row(key).value
        if value is None:
            raise KeyError(key)
        return value

    def __setitem__(self, key: Any, value: Any) -> None:
        self.put(key, value)

    def __delitem__(self, key: Any) -> None:
        if self.delete(key) is None:
            raise KeyError(key)

    def __contains__(self, key: Any) -> bool:
        return self._row(key).value is not None

    def __iter__(self) -> Iterator[Any]:
        return (key for key, _ in self.items())

    def __len__(self) -> int:
        self._write_changes(self._store)
        return len(self._store)

    def _row(self, key: Any, *, writing: bool = False) -> StoredRow:
        if key is None or (writing and not self._writable):
            self._check(key, writing=writing)
        return self._store.row(key)


class _TimedView(_StoreView):
    """Entries by key and time; entries older than the retention cannot be read."""

    def __init__(self, store: TimedStore, name: str, *arguments: Any, writable: bool = True) -> None:
        super().__init__(name, *arguments, writable=writable)
        self._store = store

    def _put(self, key: Any, position: Position, value: Any) -> None:
        self._check(key, writing=True)
        entry = self._store.entry(key, position)
        entry.value, entry.timestamp = value, self._context.timestamp
        self._store.mark(entry)

    def _get(self, key: Any, position: Position) -> Any:
        self._check(key, writing=False)
        return None if position[0] <= self._store.expired else self._store.entry(key, position).value

    def _between(self, key: Any, low: int, high: int) -> list[Entry]:
        self._check(key, writing=False)
        return self._store.between(key, max(low, self._store.expired + 1), high)

    def _all(self) -> Iterator[Entry]:
        self._write_changes(self._store)
        return (entry for entry in self._store.all() if entry.position[0] > self._store.expired)


class WindowView(_TimedView):
    """Values by key and time in milliseconds; for a windowed table the time is the start of the window."""

    def put(self, key: Any, value: Any, at: int) -> None:
        """Set the value of a key at a time; None deletes it."""
        self._put(key, (at,), value)

    def get(self, key: Any, at: int) -> Any:
        """Return the value of a key at a time, or None."""
        return self._get(key, (at,))

    def between(self, key: Any, since: int = 0, until: int = FOREVER) -> list[tuple[int, Any]]:
        """Return (time, value) of a key in time order, both ends included."""
        return [(entry.position[0], entry.value) for entry in self._between(key, since, until)]

    def items(self, since: int = 0, until: int = FOREVER) -> Iterator[tuple[Any, int, Any]]:
        """Yield (key, time, value) of all keys, both ends included."""
        return (
            (entry.key, entry.position[0], entry.value) for entry in self._all() if since <= entry.position[0] <= until
        )


class SessionView(_TimedView):
    """Values by key, start and end in milliseconds."""

    def put(self, key: Any, start: int, end: int, value: Any) -> None:
        """Set the value of a session; None deletes it."""
        self._put(key, (end, start), value)

    def get(self, key: Any, start: int, end: int) -> Any:
        """Return the value of a session, or None."""
        return self._get(key, (end, start))

    def find(self, key: Any, *, earliest_end: int = 0, latest_start: int = FOREVER) -> list[tuple[Windowed, Any]]:
        """Return the sessions of a key that end at ``earliest_end`` or later and start at ``latest_start`` or earlier.

        They are sorted by their end.
        """
        return [
            (Windowed(key, entry.position[1], entry.position[0]), entry.value)
            for entry in self._between(key, earliest_end, FOREVER)
            if entry.position[1] <= latest_start
        ]

    def items(self) -> Iterator[tuple[Windowed, Any]]:
        """Yield all sessions."""
        return ((Windowed(entry.key, entry.position[1], entry.position[0]), entry.value) for entry in self._all())


class VersionedView(_StoreView):
    """The newest value of each key, and which value was valid at a time."""

    def __init__(self, store: VersionedStore, name: str, *arguments: Any, writable: bool = True) -> None:
        super().__init__(name, *arguments, writable=writable)
        self._store = store

    def put(self, key: Any, value: Any, timestamp: int) -> bool:
        """Set the value that is valid from a time on, None to delete it; False if the time is before the history."""
        self._check(key, writing=True)
        return self._store.put(key, value, timestamp) is not PutResult.TOO_OLD

    def get(self, key: Any, default: Any = None) -> Any:
        """Return the newest value of a key, or ``default``."""
        self._check(key, writing=False)
        value = self._store.get(key)[0]
        return default if value is None else value

    def get_as_of(self, key: Any, time: int, default: Any = None) -> Any:
        """Return the value that was valid at a time, or ``default``."""
        self._check(key, writing=False)
        value = self._store.get_as_of(key, time)[0]
        return default if value is None else value

    def timestamp_of(self, key: Any) -> int | None:
        """Return the time from which the newest value is valid."""
        self._check(key, writing=False)
        value, timestamp = self._store.get(key)
        return None if value is None else timestamp
