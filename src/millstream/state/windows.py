"""The store of tumbling, hopping and unlimited windows: entries that are read by key and exact time.

In memory the entries of a time are one dictionary by key. The entries of many keys are read from disk in one pass.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from operator import add, attrgetter
from typing import Any

from millstream.foundation.object_codec import decode_key, encode_key, encode_values
from millstream.state.entries import Entry, Position
from millstream.state.segments import ENTRIES, INDEX, KEY_LIMIT, SEGMENT, TIMESTAMP, long_key_prefix, stored_key
from millstream.state.timed import TimedStore

_key_bytes_of = attrgetter("key_bytes")


class WindowStore(TimedStore):
    """A timed store in which a key has at most one entry at each time."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._windows: dict[int, Window] = {}

    def window(self, time: int) -> Window:
        """Return the entries at a time by hashable key; a missing entry is read or created when it is looked up."""
        window = self._windows.get(time)
        if window is None:
            window = self._windows[time] = Window(self, time)
        return window

    def entry(self, key: Any, position: Position) -> Entry:
        return self.window(position[0])[key if type(key) is str or type(key) is int else encode_key(key)]

    def between(self, key: Any, low: int, high: int) -> list[Entry]:
        self._write(self._changed)
        positions = [entry.position for entry in self._scan_key(key) if low <= entry.position[0] <= high]
        return [entry for position in positions if (entry := self.entry(key, position)).value is not None]

    def release(self) -> None:
        self._windows.clear()
        super().release()

    def _write(self, entries: list[Entry]) -> None:
        """Write entries time by time, for each time in the order of their LMDB keys."""
        by_time: defaultdict[int, list[Entry]] = defaultdict(list)
        for entry in self._without_expired(entries):
            by_time[entry.position[0]].append(entry)
        first_kept = max(0, self.expired) // self.segment_length
        with self._txn.cursor(self._database) as cursor:
            for time in sorted(by_time):
                number, position = time // self.segment_length, self._layout.pack(time)
                segment = SEGMENT.pack(ENTRIES, number)
                kept = [entry for entry in by_time[time] if entry.value is not None] if number >= first_kept else []
                if len(kept) < len(by_time[time]):
                    for entry in by_time[time]:
                        if entry.value is None or number < first_kept:
                            self._remove(entry, segment, position)
                cursor.putmulti(self._rows(kept, segment, position))
                if self._indexed:
                    index = [(INDEX + position + entry.key_bytes, encode_key(entry.key)) for entry in kept]
                    cursor.putmulti(sorted(index))

    def _rows(self, entries: list[Entry], segment: bytes, position: bytes) -> list[tuple[bytes, bytes]]:
        entries = sorted(entries, key=_key_bytes_of)
        timestamps = []
        for entry in entries:
            entry.stored = True
            timestamps.append(TIMESTAMP.pack(entry.timestamp))
        data = map(add, timestamps, encode_values(self.codec, [entry.value for entry in entries]))
        if entries and max(len(entry.key_bytes) for entry in entries) >= KEY_LIMIT:
            prefixes = [long_key_prefix(entry.key) if len(entry.key_bytes) >= KEY_LIMIT else b"" for entry in entries]
            data = map(add, prefixes, data)
        keys = [segment + entry.key_bytes + position for entry in entries]
        return list(zip(keys, data, strict=True))

    def read_at(self, time: int, keys: Collection[bytes]) -> list[tuple[bytes, bytes]]:
        """Return (key bytes, value bytes) of the stored entries at a time."""
        if time > self._last_stored:
            return []
        prefix, position = SEGMENT.pack(ENTRIES, time // self.segment_length), self._layout.pack(time)
        if len(keys) == 1:
            [key_bytes] = keys
            stored = self._txn.get(prefix + key_bytes + position, db=self._database)
            return [] if stored is None else [(key_bytes, stored)]
        begin, end = len(prefix), -len(position)
        with self._txn.cursor(self._database) as cursor:
            rows = cursor.getmulti([prefix + key_bytes + position for key_bytes in sorted(keys)])
        return [(physical[begin:end], stored) for physical, stored in rows]


class Window(dict[Any, Entry]):
    """The entries at one time by hashable key: text and integers as they are, other keys as bytes."""

    def __init__(self, store: WindowStore, time: int) -> None:
        self._store = store
        self._time = time
        self._position = (time,)

    def __missing__(self, hashable: Any) -> Entry:
        self._read([hashable])
        return self[hashable]

    def prefetch(self, hashables: Collection[Any]) -> None:
        """Read the entries that are not in memory in one pass, which is faster than one at a time."""
        missing = set(hashables).difference(self)
        if missing:
            self._read(missing)

    def _read(self, hashables: Collection[Any]) -> None:
        missing = {
            stored_key(decode_key(hashable) if type(hashable) is bytes else hashable): hashable
            for hashable in hashables
        }
        position, decode = self._position, self._store.codec.decode
        unpack_timestamp, size = TIMESTAMP.unpack_from, TIMESTAMP.size
        for key_bytes, data in self._store.read_at(self._time, missing):
            hashable = missing.pop(key_bytes)
            key = decode_key(hashable) if type(hashable) is bytes else hashable
            skip = 0 if len(key_bytes) < KEY_LIMIT else len(long_key_prefix(key))
            value = decode(data[skip + size :])
            self[hashable] = Entry(key, position, key_bytes, value, unpack_timestamp(data, skip)[0], value, False, True)
        for key_bytes, hashable in missing.items():
            key = decode_key(hashable) if type(hashable) is bytes else hashable
            self[hashable] = Entry(key, position, key_bytes)
