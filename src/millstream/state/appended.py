"""The store of stream-stream joins: records by key, time and number, to which many can be appended at once.

Records of a batch that are appended as columns stay columns until the end of the batch, sorted by key, time and number,
together with those that were read from disk to find partners. If a single record uses the store, they become entries.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import count, islice
from typing import Any

import numpy as np

from millstream.foundation.blocks import take_items
from millstream.foundation.key_columns import encode_keys, hashable_keys, sorted_keys
from millstream.foundation.object_codec import decode_key
from millstream.state.entry_columns import physical_keys
from millstream.state.segments import KEY_LIMIT
from millstream.state.timed import TimedStore

_LARGEST = 2**62
_NONE: Any = np.zeros(0, np.int64)


class BatchKeys:
    """Numbers the keys of a batch as they occur, for the stores that share it."""

    def __init__(self) -> None:
        self._numbers: defaultdict[Any, int] = defaultdict(count().__next__)
        self.keys: list[Any] = []
        self.key_bytes: list[bytes] = []
        self.has_long_keys = False

    def of(self, keys: list[Any]) -> Any:
        """Return an array with the number of each key."""
        numbers = np.fromiter(map(self._numbers.__getitem__, hashable_keys(keys)), np.int64, len(keys))
        new = list(islice(self._numbers, len(self.keys), None))
        if new:
            new_keys = [decode_key(key) if type(key) is bytes else key for key in new]
            new_bytes = encode_keys(new_keys)
            self.keys += new_keys
            self.key_bytes += new_bytes
            self.has_long_keys |= max(map(len, new_bytes)) >= KEY_LIMIT
        return numbers


class AppendedStore(TimedStore):
    """A timed store whose entries have the position (time, number)."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.keys = BatchKeys()
        self._clear_columns()

    def _clear_columns(self) -> None:
        self._codes, self.times, self._numbers, self.slots = _NONE, _NONE, _NONE, _NONE
        self.values: list[Any] = []
        """The values of the records, in no order: ``slots`` has their indexes."""
        self._is_stored: Any = np.zeros(0, bool)
        self._since: Any = _NONE
        self._low, self._width = 0, 1

    @property
    def has_columns(self) -> bool:
        """Whether records of the batch are columns."""
        return bool(self.values)

    def can_append(self, low: int, high: int) -> bool:
        """Whether columns can be used for records between two times; sets the times that look-ups can ask for."""
        if self.has_buckets or self.keys.has_long_keys:
            return False
        self._prune()
        if len(self.times):
            low, high = min(low, int(self.times.min())), max(high, int(self.times.max()))
        self._low, self._width = max(0, min(low, self.expired)) - 1, 0
        self._width = max(high, self._last_stored) + 3 - self._low
        return (len(self.keys.keys) + 1) * self._width < _LARGEST

    def load(self, codes: Any, since: Any) -> None:
        """Read the stored records of keys from a time on, each, unless they are in memory."""
        needed = since <= self._last_stored
        if not needed.any():
            return
        missing = np.full(len(self.keys.keys) - len(self._since), self._last_stored + 1)
        self._since = np.concatenate((self._since, missing))
        earliest = self._since.copy()
        np.minimum.at(earliest, codes[needed], np.maximum(since[needed], 0))
        missing_keys = np.flatnonzero(earliest < self._since)
        if not len(missing_keys):
            return
        key_bytes, order = sorted_keys(take_items(self.keys.key_bytes, missing_keys.tolist()))
        missing_keys = missing_keys[order]
        stored = self.columns().read(key_bytes, earliest[missing_keys].tolist(), self._since[missing_keys].tolist())
        self._since = earliest
        times, numbers = stored.positions[:, 0], stored.positions[:, 1]
        self._add(missing_keys[stored.numbers], times, numbers, stored.values, is_stored=True)

    def append(self, codes: Any, times: Any, values: list[Any]) -> Any:
        """Append records, each after those of the same key and time, which must be loaded; return their slots."""
        pairs, own = self._pairs(codes, times), self._pairs(self._codes, self.times)
        order = np.argsort(pairs, kind="stable")
        ordered = pairs[order]
        begins = np.concatenate(([True], ordered[1:] != ordered[:-1]))[: len(ordered)]
        indexes = np.arange(len(ordered))
        ranks = indexes - np.maximum.accumulate(np.where(begins, indexes, 0))
        if len(own):
            last = np.searchsorted(own, ordered, "right") - 1
            ranks += np.where((last >= 0) & (own[last] == ordered), self._numbers[last] + 1, 0)
        numbers = np.empty_like(ranks)
        numbers[order] = ranks
        slots = len(self.values) + np.arange(len(codes))
        self._add(codes, times, numbers, values, is_stored=False)
        if len(times):
            self.observed = max(self.observed, int(times.max()))
        return slots

    def find(self, codes: Any, low: Any, high: Any) -> tuple[Any, Any]:
        """Return for each key where its records between two times begin and stop in ``times`` and ``slots``."""
        own = self._pairs(self._codes, self.times)
        begins = np.searchsorted(own, self._pairs(codes, low))
        return begins, np.maximum(np.searchsorted(own, self._pairs(codes, high), "right"), begins)

    def apply_counted(self) -> None:
        """Make columns entries in memory, before these are used."""
        super().apply_counted()
        if not len(self.slots):
            return
        appended = np.flatnonzero(~self._is_stored)
        keys = take_items(self.keys.keys, self._codes[appended].tolist())
        values = take_items(self.values, self.slots[appended].tolist())
        positions = zip(self.times[appended].tolist(), self._numbers[appended].tolist(), strict=True)
        self._clear_columns()
        for key, value, position in zip(keys, values, positions, strict=True):
            entry = self.entry(key, position)
            entry.value, entry.timestamp = value, position[0]
            self.mark(entry)

    def flush(self) -> None:
        self._write_columns()
        super().flush()

    def release(self) -> None:
        self._clear_columns()
        super().release()

    def _pairs(self, codes: Any, times: Any) -> Any:
        """Return numbers that have the order of pairs of key and time."""
        return codes * self._width + np.clip(times - self._low, 0, self._width - 1)

    def _add(self, codes: Any, times: Any, numbers: Any, values: list[Any], *, is_stored: bool) -> None:
        slots = len(self.values) + np.arange(len(codes))
        self.values += values
        codes, times = np.concatenate((self._codes, codes)), np.concatenate((self.times, times))
        order = np.argsort(self._pairs(codes, times), kind="stable")
        self._codes, self.times = codes[order], times[order]
        self._numbers = np.concatenate((self._numbers, numbers))[order]
        self.slots = np.concatenate((self.slots, slots))[order]
        self._is_stored = np.concatenate((self._is_stored, np.full(len(slots), is_stored)))[order]

    def _prune(self) -> None:
        """Forget records that have expired, once they are half of all."""
        kept = np.flatnonzero(self.times >= self.expired)
        if 2 * len(kept) > len(self.values):
            return
        self._codes, self.times, self._is_stored = self._codes[kept], self.times[kept], self._is_stored[kept]
        self._numbers = self._numbers[kept]
        self.values = take_items(self.values, self.slots[kept].tolist())
        self.slots = np.arange(len(kept))

    def _write_columns(self) -> None:
        """Write what was appended, in the order of LMDB keys."""
        appended = np.flatnonzero(~self._is_stored & (self.times >= self.expired))
        codes, times, slots = self._codes[appended], self.times[appended], self.slots[appended]
        if len(appended):
            key_bytes = self.keys.key_bytes
            ranks = np.empty(len(key_bytes), np.int64)
            ranks[sorted_keys(key_bytes)[1]] = np.arange(len(key_bytes))
            order = np.lexsort((ranks[codes], times // self.segment_length))
            positions = np.stack((times, self._numbers[appended]), axis=1)[order]
            keys = physical_keys(key_bytes, codes[order], positions, self.segment_length)
            values = take_items(self.values, slots[order].tolist())
            self.columns().write(keys, times[order], values, times[order], np.full(len(keys), False))
            self.refresh_reads()
        self._clear_columns()
