"""The store behind tumbling, hopping and unlimited windows: entries that are asked for by key and exact time.

In memory the entries of a time are one dictionary by key. Those of many keys are read from the disk at one go.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from operator import attrgetter
from typing import Any

from millstream.foundation.object_codec import decode_key, encode_key
from millstream.state.entries import At, Entry
from millstream.state.segments import ENTRIES, INDEX, LONGEST_NAME, SEGMENT, STAMP, beside, name_of
from millstream.state.timed import TimedStore

_name_of = attrgetter("name")


class WindowStore(TimedStore):
    """Entries of which a key has one at most at each time; nothing else tells them apart."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._windows: dict[int, Window] = {}

    def window(self, time: int) -> Window:
        """Return the entries at a time by handle of the key: ``window[handle]`` is never missing."""
        window = self._windows.get(time)
        if window is None:
            window = self._windows[time] = Window(self, time)
        return window

    def entry(self, key: Any, at: At) -> Entry:
        return self.window(at[0])[key if type(key) is str or type(key) is int else encode_key(key)]

    def between(self, key: Any, low: int, high: int) -> list[Entry]:
        self._write(self._changed)
        found = [self.entry(key, one.at) for one in self._scanned(key) if low <= one.at[0] <= high]
        return [entry for entry in found if entry.value is not None]

    def release(self) -> None:
        self._windows.clear()
        super().release()

    def _write(self, entries: list[Entry]) -> None:
        """Write entries time by time, and of each time in the order of the disk."""
        by_time: defaultdict[int, list[Entry]] = defaultdict(list)
        for entry in self._lasting(entries):
            by_time[entry.at[0]].append(entry)
        first_kept = max(0, self.expired) // self.segment_length
        with self._txn.cursor(self._database) as cursor:
            for time in sorted(by_time):
                number, place = time // self.segment_length, self._layout.pack(time)
                segment = SEGMENT.pack(ENTRIES, number)
                kept = [one for one in by_time[time] if one.value is not None] if number >= first_kept else []
                if len(kept) < len(by_time[time]):
                    for entry in by_time[time]:
                        if entry.value is None or number < first_kept:
                            self._remove(entry, segment, place)
                cursor.putmulti(self._rows(kept, segment, place))
                if self._indexed:
                    index = [(INDEX + place + entry.name, encode_key(entry.key)) for entry in kept]
                    cursor.putmulti(sorted(index))

    def _rows(self, entries: list[Entry], segment: bytes, place: bytes) -> list[tuple[bytes, bytes]]:
        encode, stamp = self._encode, STAMP.pack
        rows: list[tuple[bytes, bytes]] = []
        for entry in sorted(entries, key=_name_of):
            entry.stored, name = True, entry.name
            data = stamp(entry.timestamp) + encode(entry.value)
            rows.append((segment + name + place, data if len(name) < LONGEST_NAME else beside(entry.key) + data))
        return rows

    def read_at(self, time: int, names: Collection[bytes]) -> list[tuple[bytes, bytes]]:
        """Return (name, bytes) of the entries at a time that are on the disk."""
        if time > self._last_stored:
            return []
        prefix, place = SEGMENT.pack(ENTRIES, time // self.segment_length), self._layout.pack(time)
        if len(names) == 1:
            [name] = names
            stored = self._txn.get(prefix + name + place, db=self._database)
            return [] if stored is None else [(name, stored)]
        begin, end = len(prefix), -len(place)
        with self._txn.cursor(self._database) as cursor:
            found = cursor.getmulti([prefix + name + place for name in sorted(names)])
        return [(physical[begin:end], stored) for physical, stored in found]


class Window(dict[Any, Entry]):
    """The entries at one time by handle of the key: text and numbers stand for themselves, others for their bytes."""

    def __init__(self, store: WindowStore, time: int) -> None:
        self._store = store
        self._time = time
        self._at = (time,)

    def __missing__(self, handle: Any) -> Entry:
        self._read([handle])
        return self[handle]

    def expect(self, handles: Collection[Any]) -> None:
        """Read what is not yet here, all at one go, which is quicker than one by one."""
        missing = set(handles).difference(self)
        if missing:
            self._read(missing)

    def _read(self, handles: Collection[Any]) -> None:
        names = {name_of(decode_key(handle) if type(handle) is bytes else handle): handle for handle in handles}
        at, decode, stamp, size = self._at, self._store.codec.decode, STAMP.unpack_from, STAMP.size
        for name, data in self._store.read_at(self._time, names):
            handle = names.pop(name)
            key = decode_key(handle) if type(handle) is bytes else handle
            skip = 0 if len(name) < LONGEST_NAME else len(beside(key))
            value = decode(data[skip + size :])
            self[handle] = Entry(key, at, name, value, stamp(data, skip)[0], value, False, True)
        for name, handle in names.items():
            self[handle] = Entry(decode_key(handle) if type(handle) is bytes else handle, at, name)
