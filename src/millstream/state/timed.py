"""The store behind windows, sessions and joins: entries of a key at a time, kept for a while.

Entries lie in segments of time, so that what has expired goes at one stroke, and within a segment by key and time. In
memory a key's entries form a bucket that is read from the disk once per batch, from the earliest time needed on.
"""

from __future__ import annotations

import struct
from bisect import bisect_left, insort
from collections.abc import Iterator
from typing import Any, TypeAlias

from millstream.native import decode_key, encode_key
from millstream.records import Headers
from millstream.serdes import Serde
from millstream.state.encoding import KEY_LENGTH, fitted, is_fitted
from millstream.windows import FOREVER, SessionWindows, Windows

At: TypeAlias = tuple[int, ...]
"""Where an entry stands: its time first, then whatever tells it from others of the same time."""

_SHORTEST_SEGMENT = 60_000
_LONGEST_NAME = 400
_SEGMENT = struct.Struct(">cQ")
ONE_TIME, TWO_TIMES = struct.Struct(">Q"), struct.Struct(">QQ")
_stamp = struct.Struct(">q")
_ENTRIES, _INDEX = b"d", b"t"
_OBSERVED = b"m.observed"
_STREAM_TIME = b"m.stream-time."
_EMITTED = b"m.emitted"
_NUMBERS = 2


class Entry:
    """An entry in memory; ``value`` None means that there is none."""

    __slots__ = ("at", "before", "changed", "headers", "key", "timestamp", "value")

    def __init__(self, key: Any, at: At, value: Any, timestamp: int) -> None:
        self.key = key
        self.at = at
        self.value = value
        self.timestamp = timestamp
        self.before = value
        self.changed = False
        self.headers: Headers = ()
        """Those of the last update, if it is passed on later."""


class Clock:
    """The latest time that an operator has seen."""

    __slots__ = ("time",)

    def __init__(self, time: int) -> None:
        self.time = time


class Bucket:
    """The entries of a key from time ``since`` on."""

    __slots__ = ("entries", "key", "name", "order", "since")

    def __init__(self, key: Any, since: int) -> None:
        self.key = key
        self.name = fitted(encode_key(key), _LONGEST_NAME)
        self.since = since
        self.entries: dict[At, Entry] = {}
        self.order: list[At] = []

    def take(self, entry: Entry) -> None:
        at, order = entry.at, self.order
        self.entries[at] = entry
        if not order or at > order[-1]:
            order.append(at)
        else:
            insort(order, at)


class TimedStore:
    """Entries by key and time inside one transaction; ``layout`` packs where an entry stands.

    With ``indexed`` the entries of all keys can be asked for by time.
    """

    def __init__(
        self, txn: Any, database: Any, codec: Serde, layout: struct.Struct, retention: int, *, indexed: bool = False
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
        self._cursor: Any = None
        self._stored: list[bytes] = []
        """The segments that lie on disk when the first key is read; what is written later is in memory too."""
        self._next_due = -1
        self.observed = observed_time(txn, database)
        """The latest time that was written."""
        self._clocks: dict[int, Clock] = {}
        self.emitted = _number(txn, database, _EMITTED)
        """Up to where the operator has emitted final results."""

    def clock(self, number: int) -> Clock:
        """Return the stream time of one of the operators that share the store."""
        if number not in self._clocks:
            self._clocks[number] = Clock(_number(self._txn, self._database, _STREAM_TIME + b"%d" % number))
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
        kind = type(key)
        handle = key if kind is str or kind is int else encode_key(key)
        bucket = self._buckets.get(handle)
        if bucket is None:
            bucket = self._buckets[handle] = Bucket(key, max(0, since))
            self._load(bucket, bucket.since, None)
        elif since < bucket.since and bucket.since > 0:
            until, bucket.since = bucket.since, max(0, since)
            self._load(bucket, bucket.since, until)
        return bucket

    def entry(self, key: Any, at: At) -> Entry:
        """Return an entry, an empty one if there is none; changes to it must be marked."""
        kind = type(key)  # most entries are known: they need no more than two look-ups
        known = self._buckets.get(key if kind is str or kind is int else encode_key(key))
        if known is not None and (found := known.entries.get(at)) is not None:
            return found
        bucket = self.bucket(key, at[0])
        entry = bucket.entries.get(at)
        if entry is None:
            entry = Entry(key, at, None, -1)
            bucket.take(entry)
        return entry

    def between(self, key: Any, low: int, high: int) -> list[Entry]:
        """Return the entries of a key whose time is in ``low`` … ``high``, in order."""
        bucket = self.bucket(key, low)
        order, entries = bucket.order, bucket.entries
        found: list[Entry] = []
        if not order or order[-1][0] < low:
            return found
        for place in range(bisect_left(order, (max(0, low),)), len(order)):
            at = order[place]
            if at[0] > high:
                break
            entry = entries[at]
            if entry.value is not None:
                found.append(entry)
        return found

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

    def settle(self, entry: Entry) -> None:
        """Start a new round of changes for an entry that has been written and passed on."""
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
            behind = bytes([_INDEX[0] + 1])
            found = cursor.prev() if cursor.set_range(behind) else cursor.last()
            if not found or cursor.key()[:1] != _INDEX:
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
            if cursor.set_range(_INDEX + low.to_bytes(8, "big")):
                for physical, key in cursor:
                    if physical[:1] != _INDEX:
                        return
                    yield self._layout.unpack(physical[1:size]), decode_key(key)

    def all(self) -> Iterator[Entry]:
        """Yield all stored entries by segment, key and time."""
        self.flush()
        for _, entry in scan_timed(self._txn, self._database, self._decode, self._layout):
            yield entry

    def __len__(self) -> int:
        entries = int(self._txn.stat(self._database)["entries"]) - _NUMBERS - len(self._clocks)
        return max(0, entries // 2 if self._indexed else entries)

    def flush(self) -> None:
        """Write all changes and let go of what has expired."""
        self._write(self._changed)
        self._expire()
        numbers = {_OBSERVED: self.observed, _EMITTED: self.emitted}
        numbers.update((_STREAM_TIME + b"%d" % number, clock.time) for number, clock in self._clocks.items())
        for name, number in numbers.items():
            self._txn.put(name, _stamp.pack(number), db=self._database)

    def write_through(self) -> None:
        """Write all changed entries once and for all; for stores whose changes nobody waits for."""
        for entry in self.take_changed():
            self.settle(entry)

    # Bytes

    def _segment(self, time: int) -> bytes:
        return _SEGMENT.pack(_ENTRIES, time // self.segment_length)

    def _load(self, bucket: Bucket, since: int, until: int | None) -> None:
        """Read a key's entries with ``since <= time < until`` into its bucket."""
        key, name, unpack, size, decode = bucket.key, bucket.name, self._layout.unpack, self._layout.size, self._decode
        whole = _SEGMENT.size + len(name) + size
        skip = KEY_LENGTH.size + len(encode_key(key)) if is_fitted(name, _LONGEST_NAME) else 0
        if self._cursor is None:
            self._cursor = self._txn.cursor(self._database)
            self._stored = list(_stored_segments(self._txn, self._database, self._segment(0), None))
        cursor = self._cursor
        for segment in self._stored:
            begin = _SEGMENT.unpack(segment)[1] * self.segment_length
            end = begin + self.segment_length
            low, high = max(begin, since), end if until is None else min(end, until)
            if low >= high:
                continue
            stop = segment + name + high.to_bytes(8, "big")  # longer names may lie between
            found = cursor.set_range(segment + name + low.to_bytes(8, "big"))
            while found and (physical := cursor.key()) < stop:
                if len(physical) == whole:
                    stored = cursor.value()
                    (timestamp,) = _stamp.unpack_from(stored, skip)
                    value = decode(stored[skip + _stamp.size :])
                    bucket.take(Entry(key, unpack(physical[-size:]), value, timestamp))
                found = cursor.next()

    def _write(self, entries: list[Entry]) -> None:
        puts: list[tuple[bytes, bytes]] = []
        encode, pack, stamp, length = self._encode, self._layout.pack, _stamp.pack, self.segment_length
        first_kept = max(0, self.expired) // length
        for entry in entries:
            at = entry.at
            key, place, segment = encode_key(entry.key), pack(*at), at[0] // length
            name = key if len(key) < _LONGEST_NAME else fitted(key, _LONGEST_NAME)
            physical = _SEGMENT.pack(_ENTRIES, segment) + name + place
            if entry.value is None or segment < first_kept:
                self._txn.delete(physical, db=self._database)
                if self._indexed:
                    self._txn.delete(_INDEX + place + name, db=self._database)
                continue
            if self._indexed:
                puts.append((_INDEX + place + name, key))
            data = stamp(entry.timestamp) + encode(entry.value)
            puts.append((physical, data if name is key else KEY_LENGTH.pack(len(key)) + key + data))
        if puts:
            puts.sort()
            with self._txn.cursor(self._database) as cursor:
                cursor.putmulti(puts)

    def _expire(self) -> None:
        """Delete segments that lie before the retention as a whole."""
        first = _SEGMENT.pack(_ENTRIES, max(0, self.expired) // self.segment_length)
        self._delete(_ENTRIES, first)
        if self._indexed:
            time = _SEGMENT.unpack(first)[1] * self.segment_length
            self._delete(_INDEX, _INDEX + time.to_bytes(8, "big"))

    def _delete(self, start: bytes, stop: bytes) -> None:
        with self._txn.cursor(self._database) as cursor:
            found = cursor.set_range(start)
            while found and cursor.key() < stop:
                found = cursor.delete()


def scan_timed(
    txn: Any, database: Any, decode: Any, layout: struct.Struct, prefix: bytes = _ENTRIES
) -> Iterator[tuple[bytes, Entry]]:
    """Yield stored entries, with the bytes of their keys, by segment, key and time."""
    size = layout.size
    with txn.cursor(database) as cursor:
        if not cursor.set_range(prefix):
            return
        for physical, stored in cursor:
            if not physical.startswith(prefix):
                return
            name = physical[_SEGMENT.size : -size]
            skip = 0
            if is_fitted(name, _LONGEST_NAME):
                (length,) = KEY_LENGTH.unpack_from(stored)
                skip = KEY_LENGTH.size + length
                name = stored[KEY_LENGTH.size : skip]
            (timestamp,) = _stamp.unpack_from(stored, skip)
            value = decode(stored[skip + _stamp.size :])
            yield physical, Entry(decode_key(name), layout.unpack(physical[-size:]), value, timestamp)


def scan_key(txn: Any, database: Any, decode: Any, layout: struct.Struct, key: Any) -> Iterator[Entry]:
    """Yield the stored entries of one key by time."""
    name = fitted(encode_key(key), _LONGEST_NAME)
    length = _SEGMENT.size + len(name) + layout.size
    for segment in _stored_segments(txn, database, _SEGMENT.pack(_ENTRIES, 0), None):
        for physical, entry in scan_timed(txn, database, decode, layout, segment + name):
            if len(physical) == length:
                yield entry


def _stored_segments(txn: Any, database: Any, first: bytes, last: bytes | None) -> Iterator[bytes]:
    with txn.cursor(database) as cursor:
        place = first
        while cursor.set_range(place):
            found = cursor.key()[: _SEGMENT.size]
            if found[:1] != _ENTRIES or (last is not None and found > last):
                return
            yield found
            place = _SEGMENT.pack(_ENTRIES, _SEGMENT.unpack(found)[1] + 1)


def layout_of(windows: Windows) -> struct.Struct:
    """Return how the places of a kind of windows are packed: by start, sessions by end and start."""
    return TWO_TIMES if isinstance(windows, SessionWindows) else ONE_TIME


def observed_time(txn: Any, database: Any) -> int:
    """Return the latest time that was written to a store."""
    return _number(txn, database, _OBSERVED)


def clock_time(txn: Any, database: Any) -> int:
    """Return the latest stream time of the operators that share a store, by which late is decided; -1 for none."""
    with txn.cursor(database) as cursor:
        found = cursor.set_range(_STREAM_TIME)
        times = [-1]
        while found and cursor.key().startswith(_STREAM_TIME):
            times.append(int(_stamp.unpack(cursor.value())[0]))
            found = cursor.next()
    return max(times)


def _number(txn: Any, database: Any, name: bytes) -> int:
    stored = txn.get(name, db=database)
    return -1 if stored is None else int(_stamp.unpack(stored)[0])
