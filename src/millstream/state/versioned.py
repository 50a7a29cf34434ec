"""The store of a versioned table: the newest row of each key, and older versions within the history retention.

The newest rows are in a key-value store, like those of any table. Older versions are in a timed store, under the time
at which they ended, so that versions that can no longer be read are deleted with their segment. A tombstone is a
version like any other. A tombstone that is the newest version is in the timed store too; its end is its start.
"""

from __future__ import annotations

from bisect import bisect_right
from enum import Enum
from typing import Any

from millstream.foundation.transactions import Database, Transaction
from millstream.serdes import Serde
from millstream.state.entries import Entry
from millstream.state.keyvalue import KeyValueStore
from millstream.state.segments import TWO_TIMES
from millstream.state.timed import TimedStore

_NO_VERSION: tuple[Any, int] = (None, -1)


class _Tombstone:
    """The value of a version that is a tombstone; None means that there is no version."""


_TOMBSTONE = _Tombstone()


class _VersionCodec:
    """Encodes values and tombstones."""

    __slots__ = ("_decode", "_encode", "name")

    def __init__(self, codec: Serde) -> None:
        self.name = codec.name
        self._encode, self._decode = codec.encode, codec.decode

    def encode(self, value: Any) -> bytes:
        return b"\0" if value is _TOMBSTONE else b"\1" + self._encode(value)

    def decode(self, data: bytes) -> Any:
        return _TOMBSTONE if data[:1] == b"\0" else self._decode(data[1:])


class PutResult(Enum):
    """What happened to a version that was put."""

    NEWEST = 0
    OLDER = 1
    """There is a later version, which remains the newest row."""
    TOO_OLD = 2
    """The version is before the history and was ignored."""


class VersionedStore:
    """Versions of rows inside one transaction; for look-ups a read-only transaction is enough."""

    def __init__(
        self, txn: Transaction, newest: Database, older: Database, codec: Serde, history: int, name: str = ""
    ) -> None:
        self.newest = KeyValueStore(txn, newest, codec, name)
        """The newest rows; only ``put`` changes them."""
        self._older = TimedStore(txn, older, _VersionCodec(codec), TWO_TIMES, history)
        self._history = history
        self.is_forwarding_older = False
        """Whether the update that is being forwarded is not the newest version of its row."""

    def put(self, key: Any, value: Any, timestamp: int) -> PutResult:
        """Add a version, None for a tombstone; a version with the same timestamp is replaced."""
        older = self._older
        if timestamp > older.observed:
            older.observed = timestamp
        elif timestamp < older.observed - self._history:
            return PutResult.TOO_OLD
        row = self.newest.row(key)
        since = row.timestamp if row.value is not None else self._deleted_since(key)
        if timestamp < since:
            self._insert(key, _TOMBSTONE if value is None else value, timestamp, since)
            return PutResult.OLDER
        if row.value is not None:
            if timestamp > since:
                self._put_older(key, since, timestamp, row.value)
        elif since >= 0:
            self._put_older(key, since, since, None)
            if timestamp > since:
                self._put_older(key, since, timestamp, _TOMBSTONE)
        if value is None:
            self._put_older(key, timestamp, timestamp, _TOMBSTONE)
        row.value, row.timestamp = value, timestamp
        self.newest.mark(row)
        return PutResult.NEWEST

    def get(self, key: Any) -> tuple[Any, int]:
        """Return value and timestamp of the newest version, (None, -1) if there is none."""
        row = self.newest.row(key)
        return (row.value, row.timestamp) if row.value is not None else _NO_VERSION

    def get_as_of(self, key: Any, time: int) -> tuple[Any, int]:
        """Return the version that was valid at a time; before the history only the newest version is found."""
        row = self.newest.row(key)
        if row.value is not None and row.timestamp <= time:
            return row.value, row.timestamp
        if time < self._older.observed - self._history:
            return _NO_VERSION
        version = self._ending_after(key, time)
        if version is None or version.position[1] > time or version.value is _TOMBSTONE:
            return _NO_VERSION
        return version.value, version.position[1]

    def versions(self, key: Any) -> list[tuple[Any, int, int | None]]:
        """Return all readable versions, the newest first: value or None, start, end or None."""
        row = self.newest.row(key)
        versions: list[tuple[Any, int, int | None]] = [] if row.value is None else [(row.value, row.timestamp, None)]
        bucket = self._older.bucket(key, self._older.observed - self._history)
        for entry in reversed(bucket.entries):
            (end, start), value = entry.position, entry.value
            if value is not None and end > self._older.observed - self._history:
                versions.append((None if value is _TOMBSTONE else value, start, end if end > start else None))
        return versions

    def __len__(self) -> int:
        return len(self.newest)

    @property
    def older_versions(self) -> int:
        """How many versions besides the newest ones were stored at the last flush."""
        return len(self._older)

    def flush(self) -> None:
        """Write all changes and delete versions that have left the history."""
        self.newest.flush()
        self._older.flush()

    def release(self) -> None:
        """Release the memory; all changes must have been written."""
        self.newest.release()
        self._older.release()

    # Older versions: each is an entry at the position (end, start)

    def _put_older(self, key: Any, start: int, end: int, value: Any) -> None:
        entry = self._older.entry(key, (end, start))
        entry.value, entry.timestamp = value, start
        self._older.mark(entry)

    def _deleted_since(self, key: Any) -> int:
        """Return the timestamp of the tombstone that is the newest version of a key, -1 if there is none."""
        bucket = self._older.bucket(key, self._older.observed - self._history)
        for entry in reversed(bucket.entries):
            if entry.value is not None:
                end, start = entry.position
                return start if start == end else -1
        return -1

    def _ending_after(self, key: Any, time: int) -> Entry | None:
        """Return the first version that ends after a time: it was valid then, or is the oldest version."""
        bucket = self._older.bucket(key, time)
        for index in range(bisect_right(bucket.times, time), len(bucket.times)):
            entry = bucket.entries[index]
            if entry.value is not None:
                return entry
        return None

    def _insert(self, key: Any, value: Any, timestamp: int, newest: int) -> None:
        """Insert a version among the older ones; the version before it now ends where it starts."""
        following = self._ending_after(key, timestamp)
        end = newest
        if following is not None:
            until, start = following.position
            end = until if start <= timestamp else start
            if start < timestamp:
                previous, following.value = following.value, None
                self._older.mark(following)
                self._put_older(key, start, timestamp, previous)
        self._put_older(key, timestamp, end, value)
