"""The store behind sliding windows, sessions and joins: entries of a key at a time, kept for a while.

In memory a key's entries form a bucket that is read from the disk once per batch, from the earliest time needed on.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from millstream.foundation.object_codec import decode_key, encode_key
from millstream.serdes import Serde
from millstream.state.entries import At, Bucket, Clock, Entry
from millstream.state.segments import (
    EMITTED,
    ENTRIES,
    INDEX,
    LONGEST_NAME,
    OBSERVED,
    SEGMENT,
    STAMP,
    STREAM_TIME,
    beside,
    name_of,
    observed_time,
    scan_key,
    scan_timed,
    stored_number,
    stored_segments,
)
from millstream.windows import FOREVER

_SHORTEST_SEGMENT = 60_000
_NUMBERS = 2


class TimedStore:
    """Entries by key and time inside one transaction; ``layout`` packs where an entry stands.

    With ``indexed`` the entries of all keys can be asked for by time. With ``only_in_reach`` nobody asks for entries
    that have expired, so those that come and go in one batch never reach the disk.
    """

    def __init__(
        self,
        txn: Any,
        database: Any,
        codec: Serde,
        layout: struct.Struct,
        retention: int,
        *,
        indexed: bool = False,
        only_in_reach: bool = False,
    ) -> None:
        self._txn = txn
        self._database = database
        self.codec = codec
        self._encode, self._decode = codec.encode, codec.decode
        self._layout = layout
        self.retention = retention
        self.segment_length = max(retention // 2, _SHORTEST_SEGMENT)
        self._buckets: dict[Any, Bucket] = {}
        self._changed: list[Entry] = []
        self._indexed = indexed
        self._only_in_reach = only_in_reach
        self._cursor: Any = None
        self._stored: list[tuple[int, int, bytes]] = []
        """Begin, end and bytes of the segments that the disk had at first; what is written later is in memory too."""
        self._next_due = -1
        self.observed = observed_time(txn, database)
        """The latest time that was written."""
        self._last_stored = self.observed
        self._clocks: dict[int, Clock] = {}
        self.emitted = stored_number(txn, database, EMITTED)
        """Up to where the operator has emitted final results."""

    def clock(self, number: int) -> Clock:
        """Return the stream time of one of the operators that share the store."""
        if number not in self._clocks:
            self._clocks[number] = Clock(stored_number(self._txn, self._database, STREAM_TIME + b"%d" % number))
        return self._clocks[number]

    @property
    def expired(self) -> int:
        """Entries at this time or before it are out of reach."""
        return self.observed - self.retention

    def is_kept(self, time: int) -> bool:
        """Whether entries of a time are still stored, be they in reach or not."""
        return time // self.segment_length >= max(0, self.expired) // self.segment_length

    def bucket(self, key: Any, since: int) -> Bucket:
        """Return a key's entries, from ``since`` on at least."""
        kind = type(key)  # text and numbers stand for themselves; others for their bytes, as True == 1 == 1.0
        handle = key if kind is str or kind is int else encode_key(key)
        bucket = self._buckets.get(handle)
        return bucket if bucket is not None and bucket.since <= since else self._reaching(handle, key, since)

    def entry(self, key: Any, at: At) -> Entry:
        """Return an entry, an empty one if there is none; changes to it must be marked."""
        return self.bucket(key, at[0]).entry(at)

    def between(self, key: Any, low: int, high: int) -> list[Entry]:
        """Return the entries of a key whose time is in ``low`` … ``high``, in order."""
        return self.bucket(key, low).between(low, high)

    def mark(self, entry: Entry) -> None:
        """Remember that an entry has changed."""
        time = entry.at[0]
        if time > self.observed:
            self.observed = time
        if time < self._next_due:
            self._next_due = time
        if not entry.changed:
            entry.changed = True
            self._changed.append(entry)

    def take_changed(self) -> list[Entry]:
        """Return the entries that changed since the last call; ``before`` of each is what it was then."""
        changed, self._changed = self._changed, []
        self._write(changed)
        return changed

    def settle(self, entries: list[Entry]) -> None:
        """Start a new round of changes for entries that have been written and passed on."""
        for entry in entries:
            entry.changed = False
            entry.before = entry.value
            entry.headers = ()

    def due(self, low: int, high: int) -> list[Entry]:
        """Return the entries of all keys with a time in ``low`` … ``high``, by where they stand, then by key."""
        if high < self._next_due or high < low:
            return []
        self._write_out()
        found: list[Entry] = []
        self._next_due = FOREVER
        for at, key in self._index(max(0, low)):
            if at[0] > high:
                self._next_due = at[0]
                break
            entry = self.entry(key, at)
            if entry.value is not None:
                found.append(entry)
        return found

    def walk(self) -> Iterator[Entry]:
        """Yield the entries of all keys by where they stand, then by key; nothing may be marked meanwhile."""
        self._write_out()
        for at, key in self._index(0):
            entry = self.entry(key, at)
            if entry.value is not None:
                yield entry

    def last_time(self) -> int:
        """Return the latest time of an entry, as of the last ``walk``; -1 if there is none."""
        with self._txn.cursor(self._database) as cursor:
            behind = bytes([INDEX[0] + 1])
            found = cursor.prev() if cursor.set_range(behind) else cursor.last()
            if not found or cursor.key()[:1] != INDEX:
                return -1
            return int.from_bytes(cursor.key()[1:9], "big")

    def _write_out(self) -> None:
        """Write all changes, so that the index on the disk is complete, and start to collect them anew."""
        self._write(self._changed)
        for entry in self._changed:
            entry.changed = False
        self._changed = []

    def _index(self, low: int) -> Iterator[tuple[At, Any]]:
        size = 1 + self._layout.size
        with self._txn.cursor(self._database) as cursor:
            if cursor.set_range(INDEX + low.to_bytes(8, "big")):
                for physical, key in cursor:
                    if physical[:1] != INDEX:
                        return
                    yield self._layout.unpack(physical[1:size]), decode_key(key)

    def all(self) -> Iterator[Entry]:
        """Yield all stored entries by segment, key and time."""
        self.flush()
        for _, entry in scan_timed(self._txn, self._database, self._decode, self._layout):
            yield entry

    def _scanned(self, key: Any) -> Iterator[Entry]:
        return scan_key(self._txn, self._database, self._decode, self._layout, key)

    def __len__(self) -> int:
        entries = int(self._txn.stat(self._database)["entries"]) - _NUMBERS - len(self._clocks)
        return max(0, entries // 2 if self._indexed else entries)

    def flush(self) -> None:
        """Write all changes and let go of what has expired."""
        self._write(self._changed)
        self._expire()
        numbers = {OBSERVED: self.observed, EMITTED: self.emitted}
        numbers.update((STREAM_TIME + b"%d" % number, clock.time) for number, clock in self._clocks.items())
        for name, number in numbers.items():
            self._txn.put(name, STAMP.pack(number), db=self._database)

    def release(self) -> None:
        """Forget what is in memory, when all has been written: it is on the disk from now on."""
        self._buckets.clear()
        self._changed.clear()
        self._cursor, self._last_stored = None, self.observed
        self._stored.clear()

    def write_through(self) -> None:
        """Write all changed entries once and for all; for stores whose changes nobody waits for."""
        self.settle(self.take_changed())

    # Bytes

    def _reaching(self, handle: Any, key: Any, since: int) -> Bucket:
        """Return the bucket of a key after it was read from the disk, from ``since`` on, as far as it was not yet."""
        since = max(0, min(since, self._last_stored + 1))  # what is later is in memory anyway
        bucket = self._buckets.get(handle)
        if bucket is None:
            bucket = self._buckets[handle] = Bucket(key, name_of(key), since)
            self._load(bucket, since, FOREVER + 1)
        elif since < bucket.since:
            until, bucket.since = bucket.since, since
            self._load(bucket, since, until)
        return bucket

    def _load(self, bucket: Bucket, since: int, until: int) -> None:
        """Read a key's entries with ``since <= time < until`` into its bucket."""
        if since > self._last_stored:
            return
        key, name, unpack, size, decode = bucket.key, bucket.name, self._layout.unpack, self._layout.size, self._decode
        whole = SEGMENT.size + len(name) + size
        skip = 0 if len(name) < LONGEST_NAME else len(beside(key))
        if self._cursor is None:
            self._open_cursor()
        cursor = self._cursor
        for begin, end, segment in self._stored:
            low, high = max(begin, since), min(end, until)
            if low >= high:
                continue
            prefix = segment + name
            stop = prefix + high.to_bytes(8, "big")  # longer names may lie between
            found = cursor.set_range(prefix + low.to_bytes(8, "big"))
            while found:
                physical, stored = cursor.item()
                if physical >= stop:
                    break
                if len(physical) == whole:
                    (timestamp,) = STAMP.unpack_from(stored, skip)
                    value = decode(stored[skip + STAMP.size :])
                    at = unpack(physical[-size:])
                    bucket.take(Entry(key, at, name, value, timestamp, value, stored=True))
                found = cursor.next()

    def _open_cursor(self) -> None:
        self._cursor, length = self._txn.cursor(self._database), self.segment_length
        for segment in stored_segments(self._txn, self._database):
            begin = SEGMENT.unpack(segment)[1] * length
            self._stored.append((begin, begin + length, segment))

    def _write(self, entries: list[Entry]) -> None:
        """Write entries in the order of the disk, which is what LMDB likes best.

        Sorting the keys is quicker than sorting the entries, of which a key has many, mostly in order of time.
        """
        by_name: defaultdict[bytes, list[Entry]] = defaultdict(list)
        for entry in self._lasting(entries):
            by_name[entry.name].append(entry)
        encode, pack, stamp, length = self._encode, self._layout.pack, STAMP.pack, self.segment_length
        first_kept = max(0, self.expired) // length
        segments: defaultdict[bytes, list[tuple[bytes, bytes]]] = defaultdict(list)
        number, segment, puts = -1, b"", segments[INDEX]
        for name in sorted(by_name):
            ahead = b"" if len(name) < LONGEST_NAME else beside(by_name[name][0].key)
            for entry in by_name[name]:
                at = entry.at
                if at[0] // length != number:
                    number = at[0] // length
                    segment = SEGMENT.pack(ENTRIES, number)
                    puts = segments[segment]
                place = pack(*at)
                if entry.value is None or number < first_kept:
                    self._remove(entry, segment, place)
                    continue
                entry.stored = True
                puts.append((segment + name + place, ahead + stamp(entry.timestamp) + encode(entry.value)))
                if self._indexed:
                    segments[INDEX].append((INDEX + place + name, encode_key(entry.key)))
        with self._txn.cursor(self._database) as cursor:
            for segment in sorted(segments):
                segments[segment].sort()
                cursor.putmulti(segments[segment])

    def _lasting(self, entries: list[Entry]) -> list[Entry]:
        """Return what is not forgotten before anybody can ask for it."""
        if not self._only_in_reach:
            return entries
        expired = self.expired
        return [entry for entry in entries if entry.stored or entry.at[0] >= expired]

    def _remove(self, entry: Entry, segment: bytes, place: bytes) -> None:
        """Delete an entry from the disk, if it is there."""
        if entry.stored:
            entry.stored = False
            self._txn.delete(segment + entry.name + place, db=self._database)
            if self._indexed:
                self._txn.delete(INDEX + place + entry.name, db=self._database)

    def _expire(self) -> None:
        """Delete segments that lie before the retention as a whole."""
        first = SEGMENT.pack(ENTRIES, max(0, self.expired) // self.segment_length)
        self._delete(ENTRIES, first)
        if self._indexed:
            time = SEGMENT.unpack(first)[1] * self.segment_length
            self._delete(INDEX, INDEX + time.to_bytes(8, "big"))

    def _delete(self, start: bytes, stop: bytes) -> None:
        with self._txn.cursor(self._database) as cursor:
            found = cursor.set_range(start)
            while found and cursor.key() < stop:
                found = cursor.delete()
