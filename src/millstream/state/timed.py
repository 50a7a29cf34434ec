"""The store of sliding windows, sessions and joins: entries by key and time, kept for the retention.

In memory the entries of a key form a bucket, which is read from disk once per batch, from the earliest time needed.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

from millstream.foundation.object_codec import decode_key, encode_key
from millstream.foundation.transactions import Database, Transaction
from millstream.serdes import Serde
from millstream.state.counted import CountedRecords
from millstream.state.entries import Bucket, Counter, Entry, Position, StreamClock
from millstream.state.entry_columns import EntryColumns
from millstream.state.segments import (
    EMITTED,
    ENTRIES,
    INDEX,
    KEY_LIMIT,
    OBSERVED,
    SEGMENT,
    STREAM_TIME,
    TIMESTAMP,
    count_numbers,
    long_key_prefix,
    observed_time,
    scan_key,
    scan_timed,
    segment_prefixes,
    stored_key,
    stored_number,
)
from millstream.windows import FOREVER

_SHORTEST_SEGMENT = 60_000


class TimedStore:
    """Entries by key and time inside one transaction; ``layout`` packs the position of an entry.

    With ``indexed`` the entries of all keys can be read by time. With ``skip_expired`` expired entries are never read,
    so entries that expire in the batch that added them are not written.
    """

    def __init__(
        self,
        txn: Transaction,
        database: Database,
        codec: Serde,
        layout: struct.Struct,
        retention: int,
        *,
        indexed: bool = False,
        skip_expired: bool = False,
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
        self._skip_expired = skip_expired
        self._cursor: Any = None
        self._stored: list[tuple[int, int, bytes]] = []
        """Start, end and prefix of the segments that were on disk at first; later writes are in memory too."""
        self._next_due = -1
        self.observed = observed_time(txn, database)
        """The latest time that was written."""
        self._last_stored = self._observed_before = self.observed
        self._clocks: dict[int, StreamClock] = {}
        self._counters: dict[int, Counter] = {}
        self.emitted = stored_number(txn, database, EMITTED)
        """The time up to which the operator has emitted final results."""
        self.length_until_emitted: int | None = None
        """If given, no entry expires before it is emitted, which is the case that long after its time."""
        self.counted = CountedRecords()
        """Records that are not yet part of any entry; there are none while entries are in memory."""
        self.count_singly: Callable[[Any, int], None] | None = None
        """Adds a record to the entries of its key."""

    def clock(self, number: int) -> StreamClock:
        """Return the clock of one of the operators that share the store."""
        if number not in self._clocks:
            time = stored_number(self._txn, self._database, STREAM_TIME + b"%d" % number)
            self._clocks[number] = StreamClock(time)
        return self._clocks[number]

    def counter(self, number: int) -> Counter:
        """Return a number that an operator keeps with the store, 0 at first.

        It is stored under the name of a clock with this number, so no clock of the store may have the same number.
        """
        if number not in self._counters:
            stored = stored_number(self._txn, self._database, STREAM_TIME + b"%d" % number)
            self._counters[number] = Counter(max(0, stored))
        return self._counters[number]

    @property
    def expired(self) -> int:
        """The expiry time: entries at this time or earlier have expired."""
        expired = self.observed - self.retention
        return expired if self.length_until_emitted is None else min(expired, self.emitted - self.length_until_emitted)

    @property
    def expired_before(self) -> int:
        """The expiry time when the batch began."""
        return self._observed_before - self.retention

    def is_kept(self, time: int) -> bool:
        """Whether entries of a time are still stored, even if they have expired."""
        return time // self.segment_length >= max(0, self.expired) // self.segment_length

    def bucket(self, key: Any, since: int) -> Bucket:
        """Return the entries of a key, at least those from ``since`` on."""
        kind = type(key)  # text and integers are used as they are; other keys as bytes, because True == 1 == 1.0
        hashable = key if kind is str or kind is int else encode_key(key)
        bucket = self._buckets.get(hashable)
        return bucket if bucket is not None and bucket.since <= since else self._load_bucket(hashable, key, since)

    def entry(self, key: Any, position: Position) -> Entry:
        """Return an entry, an empty one if there is none; changes to it must be marked."""
        return self.bucket(key, position[0]).entry(position)

    def between(self, key: Any, low: int, high: int) -> list[Entry]:
        """Return the entries of a key with a time in ``low`` … ``high``, in order."""
        return self.bucket(key, low).between(low, high)

    def mark(self, entry: Entry) -> None:
        """Mark an entry as changed."""
        time = entry.position[0]
        if time > self.observed:
            self.observed = time
        if time < self._next_due:
            self._next_due = time
        if not entry.changed:
            entry.changed = True
            self._changed.append(entry)

    @property
    def has_buckets(self) -> bool:
        """Whether entries are in memory."""
        return bool(self._buckets)

    @property
    def changes(self) -> int:
        """How many entries have changed since ``take_changed``."""
        return len(self._changed)

    @property
    def last_stored(self) -> int:
        """The latest time of entries on disk that may not be in memory."""
        return self._last_stored

    def apply_counted(self) -> None:
        """Make records that were counted part of entries in memory, before these are used in another way."""
        if self.counted and self.count_singly is not None:
            for key, timestamp in zip(*self.counted.take().lists(), strict=True):
                self.count_singly(key, timestamp)

    def columns(self) -> EntryColumns:
        """Return what reads and writes entries that are not in memory; ``refresh_reads`` must follow writes."""
        return EntryColumns(
            self._txn, self._database, self.codec, self._layout, self.segment_length, self.expired, self._skip_expired
        )

    def refresh_reads(self) -> None:
        """Let later reads find what was written as columns."""
        self._last_stored = max(self._last_stored, self.observed)
        self._cursor = None
        self._stored.clear()

    def write_entries(self, entries: list[Entry]) -> None:
        """Write entries that are not in memory; later reads find them on disk."""
        self._write(entries)
        self.refresh_reads()

    def take_changed(self) -> list[Entry]:
        """Return the entries that changed since the last call; ``before`` is the value at that time."""
        self.apply_counted()
        changed, self._changed = self._changed, []
        self._write(changed)
        return changed

    def reset_changes(self, entries: list[Entry]) -> None:
        """Mark entries as unchanged, after they were written and forwarded."""
        for entry in entries:
            entry.changed = False
            entry.before = entry.value
            entry.headers = ()

    def due(self, low: int, high: int) -> list[Entry]:
        """Return the entries of all keys with a time in ``low`` … ``high``, sorted by position, then by key."""
        if high < self._next_due or high < low:
            return []
        self._write_changes()
        due: list[Entry] = []
        self._next_due = FOREVER
        for position, key in self._index(max(0, low)):
            if position[0] > high:
                self._next_due = position[0]
                break
            entry = self.entry(key, position)
            if entry.value is not None:
                due.append(entry)
        return due

    def walk(self) -> Iterator[Entry]:
        """Yield the entries of all keys by position, then by key; no entry may be marked during the iteration."""
        self._write_changes()
        for position, key in self._index(0):
            entry = self.entry(key, position)
            if entry.value is not None:
                yield entry

    def latest_time(self) -> int:
        """Return the latest time of an entry at the last ``walk``, -1 if there is none."""
        with self._txn.cursor(self._database) as cursor:
            after_index = bytes([INDEX[0] + 1])
            has_entry = cursor.prev() if cursor.set_range(after_index) else cursor.last()
            if not has_entry or cursor.key()[:1] != INDEX:
                return -1
            return int.from_bytes(cursor.key()[1:9], "big")

    def _write_changes(self) -> None:
        """Write all changes, so that the stored index is complete, and clear the list of changes."""
        self.apply_counted()
        self._write(self._changed)
        for entry in self._changed:
            entry.changed = False
        self._changed = []

    def _index(self, low: int) -> Iterator[tuple[Position, Any]]:
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

    def _scan_key(self, key: Any) -> Iterator[Entry]:
        return scan_key(self._txn, self._database, self._decode, self._layout, key)

    def __len__(self) -> int:
        """Return the number of stored entries, without the numbers that belong to the whole store."""
        entries = int(self._txn.stat(self._database)["entries"]) - count_numbers(self._txn, self._database)
        return entries // 2 if self._indexed else entries

    def flush(self) -> None:
        """Write all changes and delete expired segments."""
        self.apply_counted()
        self._write(self._changed)
        self._expire()
        numbers = {OBSERVED: self.observed, EMITTED: self.emitted}
        numbers.update((STREAM_TIME + b"%d" % number, clock.time) for number, clock in self._clocks.items())
        numbers.update((STREAM_TIME + b"%d" % number, counter.value) for number, counter in self._counters.items())
        for name, number in numbers.items():
            self._txn.put(name, TIMESTAMP.pack(number), db=self._database)

    def release(self) -> None:
        """Release the memory; all changes must have been written."""
        self._buckets.clear()
        self._changed.clear()
        self.counted.clear()
        self._cursor, self._last_stored = None, self.observed
        self._observed_before = self.observed
        self._stored.clear()

    def write_through(self) -> None:
        """Write all changed entries; for stores whose changes are not forwarded."""
        self.reset_changes(self.take_changed())

    # Disk

    def _load_bucket(self, hashable: Any, key: Any, since: int) -> Bucket:
        """Return the bucket of a key; entries from ``since`` on that are not in memory are read from disk."""
        self.apply_counted()
        since = max(0, min(since, self._last_stored + 1))  # later entries are in memory
        bucket = self._buckets.get(hashable)
        if bucket is None:
            bucket = self._buckets[hashable] = Bucket(key, stored_key(key), since)
            self._load(bucket, since, FOREVER + 1)
        elif since < bucket.since:
            until, bucket.since = bucket.since, since
            self._load(bucket, since, until)
        return bucket

    def _load(self, bucket: Bucket, since: int, until: int) -> None:
        """Read the entries of a key with ``since <= time < until`` into its bucket."""
        if since > self._last_stored:
            return
        key, key_bytes, decode = bucket.key, bucket.key_bytes, self._decode
        unpack, size = self._layout.unpack, self._layout.size
        length = SEGMENT.size + len(key_bytes) + size
        skip = 0 if len(key_bytes) < KEY_LIMIT else len(long_key_prefix(key))
        if self._cursor is None:
            self._open_cursor()
        cursor = self._cursor
        for start, end, segment in self._stored:
            low, high = max(start, since), min(end, until)
            if low >= high:
                continue
            prefix = segment + key_bytes
            stop = prefix + high.to_bytes(8, "big")  # entries of longer keys can be in between
            has_entry = cursor.set_range(prefix + low.to_bytes(8, "big"))
            while has_entry:
                physical, stored = cursor.item()
                if physical >= stop:
                    break
                if len(physical) == length:
                    (timestamp,) = TIMESTAMP.unpack_from(stored, skip)
                    value = decode(stored[skip + TIMESTAMP.size :])
                    position = unpack(physical[-size:])
                    bucket.insert(Entry(key, position, key_bytes, value, timestamp, value, stored=True))
                has_entry = cursor.next()

    def _open_cursor(self) -> None:
        self._cursor, length = self._txn.cursor(self._database), self.segment_length
        for segment in segment_prefixes(self._txn, self._database):
            start = SEGMENT.unpack(segment)[1] * length
            self._stored.append((start, start + length, segment))

    def _write(self, entries: list[Entry]) -> None:
        """Write entries in the order of their LMDB keys, the order in which LMDB writes fastest.

        Sorting the keys is faster than sorting the entries: a key has many entries, mostly in order of time.
        """
        by_key: defaultdict[bytes, list[Entry]] = defaultdict(list)
        for entry in self._without_expired(entries):
            by_key[entry.key_bytes].append(entry)
        encode, pack, pack_timestamp, length = self._encode, self._layout.pack, TIMESTAMP.pack, self.segment_length
        first_kept = max(0, self.expired) // length
        segments: defaultdict[bytes, list[tuple[bytes, bytes]]] = defaultdict(list)
        number, segment, puts = -1, b"", segments[INDEX]
        for key_bytes in sorted(by_key):
            prefix = b"" if len(key_bytes) < KEY_LIMIT else long_key_prefix(by_key[key_bytes][0].key)
            for entry in by_key[key_bytes]:
                position = entry.position
                if position[0] // length != number:
                    number = position[0] // length
                    segment = SEGMENT.pack(ENTRIES, number)
                    puts = segments[segment]
                packed = pack(*position)
                if entry.value is None or number < first_kept:
                    self._remove(entry, segment, packed)
                    continue
                entry.stored = True
                data = prefix + pack_timestamp(entry.timestamp) + encode(entry.value)
                puts.append((segment + key_bytes + packed, data))
                if self._indexed:
                    segments[INDEX].append((INDEX + packed + key_bytes, encode_key(entry.key)))
        with self._txn.cursor(self._database) as cursor:
            for segment in sorted(segments):
                segments[segment].sort()
                cursor.putmulti(segments[segment])

    def _without_expired(self, entries: list[Entry]) -> list[Entry]:
        """Return the entries to write; with ``skip_expired`` without those that expired before they were written."""
        if not self._skip_expired:
            return entries
        expired = self.expired
        return [entry for entry in entries if entry.stored or entry.position[0] >= expired]

    def _remove(self, entry: Entry, segment: bytes, position: bytes) -> None:
        """Delete an entry from disk, if it is stored."""
        if entry.stored:
            entry.stored = False
            self._txn.delete(segment + entry.key_bytes + position, db=self._database)
            if self._indexed:
                self._txn.delete(INDEX + position + entry.key_bytes, db=self._database)

    def _expire(self) -> None:
        """Delete the segments that have expired completely."""
        first = SEGMENT.pack(ENTRIES, max(0, self.expired) // self.segment_length)
        self._delete(ENTRIES, first)
        if self._indexed:
            time = SEGMENT.unpack(first)[1] * self.segment_length
            self._delete(INDEX, INDEX + time.to_bytes(8, "big"))

    def _delete(self, start: bytes, stop: bytes) -> None:
        with self._txn.cursor(self._database) as cursor:
            has_entry = cursor.set_range(start)
            while has_entry and cursor.key() < stop:
                has_entry = cursor.delete()
