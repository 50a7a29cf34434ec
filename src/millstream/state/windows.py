"""The store of tumbling, hopping and unlimited windows: entries that are read by key and exact time.

In memory the entries of a time are one dictionary by key. The entries of many keys are read from disk in one pass.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from operator import add, attrgetter
from typing import Any

import numpy as np

from millstream.foundation.blocks import take_items
from millstream.foundation.object_codec import decode_key, decode_values, encode_key, encode_values
from millstream.foundation.transactions import Cursor
from millstream.state.counted import read_counts
from millstream.state.counted_windows import CountedEntries, Counting, count_windows
from millstream.state.entries import Entry, Position
from millstream.state.entry_columns import physical_keys
from millstream.state.segments import ENTRIES, INDEX, KEY_LIMIT, SEGMENT, TIMESTAMP, long_key_prefix, stored_key
from millstream.state.timed import TimedStore

_key_bytes_of = attrgetter("key_bytes")


class WindowStore(TimedStore):
    """A timed store in which a key has at most one entry at each time.

    Counts of many records use ``count`` and ``take_counted``, which create no object for an entry.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._windows: dict[int, Window] = {}
        self._counting: Counting | None = None

    def window(self, time: int) -> Window:
        """Return the entries at a time by hashable key; a missing entry is read or created when it is looked up."""
        window = self._windows.get(time)
        if window is None:
            window = self._windows[time] = Window(self, time)
        return window

    def entry(self, key: Any, position: Position) -> Entry:
        return self.window(position[0])[key if type(key) is str or type(key) is int else encode_key(key)]

    def count(self, keys: list[Any], timestamps: Any, counting: Counting, codes: Any = None) -> bool:
        """Add each record to the entries of its windows; a timestamp of an entry never decreases.

        Timestamps are a list or an array. With ``codes``, the keys are distinct, and these are their indexes.
        Return False, and do nothing, if entries are in memory, or keys are long or of other types than text or numbers.
        """
        if self._indexed or any(self._windows.values()) or not self.counted.add(keys, timestamps, KEY_LIMIT, codes):
            return False
        self._counting = counting
        starts = counting.windows.starts(int(np.max(timestamps)))
        self.observed = max(self.observed, starts[-1] if starts else -1)
        return True

    def take_counted(self) -> CountedEntries | None:
        """Write what was counted and return the entries; None if there are none, or ``take_changed`` returns them."""
        if not self.counted or self._counting is None:
            return None
        _, begin, added = self._counting
        counted = count_windows(self.counted.take(), self._counting.windows, self.segment_length)
        keys = physical_keys(counted.key_bytes, counted.numbers, counted.starts[:, None], self.segment_length)
        with self._txn.cursor(self._database) as cursor:
            before, timestamps = self._read_counts(cursor, keys, counted.starts)
        is_stored, timestamps = timestamps >= 0, np.maximum(timestamps, counted.latest)
        pairs = zip(before, counted.counts.tolist(), strict=True)
        values = [added(begin() if value is None else value, count) for value, count in pairs]
        self.columns().write(keys, counted.starts, values, timestamps, is_stored)
        self.refresh_reads()  # entries are on disk only, also the latest ones
        order = counted.in_order_of_arrival
        arrived = order.tolist()
        return CountedEntries(
            keys=take_items(counted.keys, counted.numbers[order].tolist()),
            starts=counted.starts[order].tolist(),
            values=take_items(values, arrived),
            timestamps=timestamps[order].tolist(),
        )

    def _read_counts(self, cursor: Cursor, keys: list[bytes], starts: Any) -> tuple[list[Any], Any]:
        """Return the stored values, None where there is none, and timestamps; later times than any were not stored."""
        maybe_stored = np.flatnonzero(starts <= self._last_stored)
        values, timestamps = [None] * len(keys), np.full(len(keys), -1)
        if len(maybe_stored):
            indexes = maybe_stored.tolist()
            stored, timestamps[maybe_stored] = read_counts(cursor, take_items(keys, indexes), self._decode_counts)
            for index, value in zip(indexes, stored, strict=True):
                values[index] = value
        return values, timestamps

    def _decode_counts(self, _keys: list[bytes], data: list[bytes]) -> list[Any]:
        return decode_values(self.codec, data)

    def apply_counted(self) -> None:
        if not self.counted or self._counting is None:
            return
        windows, begin, added = self._counting
        keys, timestamps = self.counted.take().lists()
        by_start: defaultdict[int, list[Any]] = defaultdict(list)
        for key, timestamp in zip(keys, timestamps, strict=True):
            for start in windows.starts(timestamp):
                by_start[start].append(key)
        for start, needed in by_start.items():
            self.window(start).prefetch(needed)
        for key, timestamp in zip(keys, timestamps, strict=True):
            for start in windows.starts(timestamp):
                entry = self.window(start)[key]
                entry.value = added(begin() if entry.value is None else entry.value, 1)
                entry.timestamp = max(entry.timestamp, timestamp)
                self.mark(entry)

    def between(self, key: Any, low: int, high: int) -> list[Entry]:
        self.apply_counted()
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
        self.prefetch([hashable])
        return self[hashable]

    def prefetch(self, hashables: Collection[Any]) -> None:
        """Read the entries that are not in memory in one pass, which is faster than one at a time."""
        self._store.apply_counted()
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
