"""The store of a table with history: of each key the newest row, and older ones for as long as the history goes back.

The newest rows lie in a key-value store, as those of any table. A row that is not the newest any more lies in a timed
store under the time at which it ended, so that what nobody can ask for goes with its segment. A tombstone is a version
like others; one that is the newest lies there too, ending when it begins.
"""

from __future__ import annotations

from bisect import bisect_right
from enum import Enum
from typing import Any

from millstream.serdes import Serde
from millstream.state.entries import Entry
from millstream.state.keyvalue import KeyValueStore
from millstream.state.segments import TWO_TIMES
from millstream.state.timed import TimedStore

_NOTHING: tuple[Any, int] = (None, -1)


class _Gone:
    """The value of a version that is a tombstone; None would mean that there is no version."""


_GONE = _Gone()


class _OrGone:
    """Encodes values and tombstones."""

    __slots__ = ("_decode", "_encode", "name")

    def __init__(self, codec: Serde) -> None:
        self.name = codec.name
        self._encode, self._decode = codec.encode, codec.decode

    def encode(self, value: Any) -> bytes:
        return b"\0" if value is _GONE else b"\1" + self._encode(value)

    def decode(self, data: bytes) -> Any:
        return _GONE if data[:1] == b"\0" else self._decode(data[1:])


class Put(Enum):
    """What became of a version."""

    NEWEST = 0
    OLDER = 1
    """There is a later one: the newest row stays."""
    TOO_OLD = 2
    """It lies before the history and was not taken."""


class VersionedStore:
    """Versions of rows inside one transaction; a transaction that only reads will do for looking rows up."""

    def __init__(self, txn: Any, newest: Any, older: Any, codec: Serde, history: int, name: str = "") -> None:
        self.newest = KeyValueStore(txn, newest, codec, name)
        """The newest rows; they are changed by ``put`` only."""
        self._older = TimedStore(txn, older, _OrGone(codec), TWO_TIMES, history)
        self._history = history
        self.passes_older = False
        """Whether the update that is being passed on is not the newest version of its row."""

    def put(self, key: Any, value: Any, timestamp: int) -> Put:
        """Take a version, None for a tombstone; one with the same timestamp is replaced."""
        older = self._older
        if timestamp > older.observed:
            older.observed = timestamp
        elif timestamp < older.observed - self._history:
            return Put.TOO_OLD
        row = self.newest.row(key)
        since = row.timestamp if row.value is not None else self._gone_since(key)
        if timestamp < since:
            self._insert(key, _GONE if value is None else value, timestamp, since)
            return Put.OLDER
        if row.value is not None:
            if timestamp > since:
                self._keep(key, since, timestamp, row.value)
        elif since >= 0:
            self._keep(key, since, since, None)
            if timestamp > since:
                self._keep(key, since, timestamp, _GONE)
        if value is None:
            self._keep(key, timestamp, timestamp, _GONE)
        row.value, row.timestamp = value, timestamp
        self.newest.mark(row)
        return Put.NEWEST

    def get(self, key: Any) -> tuple[Any, int]:
        """Return value and timestamp of the newest version, (None, -1) if there is none."""
        row = self.newest.row(key)
        return (row.value, row.timestamp) if row.value is not None else _NOTHING

    def get_as_of(self, key: Any, time: int) -> tuple[Any, int]:
        """Return the version that was valid at a time; before the history only a newest version is still known."""
        row = self.newest.row(key)
        if row.value is not None and row.timestamp <= time:
            return row.value, row.timestamp
        if time < self._older.observed - self._history:
            return _NOTHING
        found = self._ending_after(key, time)
        if found is None or found.at[1] > time or found.value is _GONE:
            return _NOTHING
        return found.value, found.at[1]

    def versions(self, key: Any) -> list[tuple[Any, int, int | None]]:
        """Return all versions that can be asked for, the newest first: value or None, beginning, end or None."""
        row = self.newest.row(key)
        found: list[tuple[Any, int, int | None]] = [] if row.value is None else [(row.value, row.timestamp, None)]
        bucket = self._older.bucket(key, self._older.observed - self._history)
        for entry in reversed(bucket.entries):
            (end, begin), value = entry.at, entry.value
            if value is not None and end > self._older.observed - self._history:
                found.append((None if value is _GONE else value, begin, end if end > begin else None))
        return found

    def __len__(self) -> int:
        return len(self.newest)

    @property
    def older_versions(self) -> int:
        """How many versions are stored beside the newest ones, as of the last flush."""
        return len(self._older)

    def flush(self) -> None:
        """Write all changes and let go of versions that have left the history."""
        self.newest.flush()
        self._older.flush()

    def release(self) -> None:
        """Forget what is in memory, when all has been written: it is on the disk from now on."""
        self.newest.release()
        self._older.release()

    # Older versions; each is an entry at (its end, its beginning)

    def _keep(self, key: Any, begin: int, end: int, value: Any) -> None:
        entry = self._older.entry(key, (end, begin))
        entry.value, entry.timestamp = value, begin
        self._older.mark(entry)

    def _gone_since(self, key: Any) -> int:
        """Return when the tombstone that is a key's newest version began, -1 if there is none in the history."""
        bucket = self._older.bucket(key, self._older.observed - self._history)
        for entry in reversed(bucket.entries):
            if entry.value is not None:
                end, begin = entry.at
                return begin if begin == end else -1
        return -1

    def _ending_after(self, key: Any, time: int) -> Entry | None:
        """Return the first version that ends after a time: it was valid then, or is the first one of all."""
        bucket = self._older.bucket(key, time)
        for place in range(bisect_right(bucket.times, time), len(bucket.times)):
            entry = bucket.entries[place]
            if entry.value is not None:
                return entry
        return None

    def _insert(self, key: Any, value: Any, timestamp: int, newest: int) -> None:
        """Put a version between those that are there; the one before it now ends where it begins."""
        following = self._ending_after(key, timestamp)
        end = newest
        if following is not None:
            until, begin = following.at
            end = until if begin <= timestamp else begin
            if begin < timestamp:
                before, following.value = following.value, None
                self._older.mark(following)
                self._keep(key, begin, timestamp, before)
        self._keep(key, timestamp, end, value)
