"""The key-value store: one row per key, decoded at most once per batch and written in key order at its end."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from operator import add, attrgetter, itemgetter
from typing import Any

import msgspec

from millstream.errors import SerdeError
from millstream.foundation.coded import CodedRecords
from millstream.foundation.key_columns import hashable_keys, ordered_keys
from millstream.foundation.object_codec import decode_key, encode_key
from millstream.foundation.text import error_text, shown
from millstream.foundation.transactions import Database, Transaction
from millstream.records import Headers
from millstream.serdes import Serde
from millstream.state.counted import CountedKeys, CountedRecords, CountedRows, add_counts
from millstream.state.encoding import KEY_LENGTH, is_shortened, shorten_key

_KEY_LIMIT = 511  # the longest key that LMDB allows
_timestamp = struct.Struct(">q")
_key_bytes_of = attrgetter("key_bytes")
_first = itemgetter(0)
_MANY_ROWS = 1_000
_MANY_COUNTED = 64
"""From this many records on, counting columns is faster than counting rows."""


class StoredRow(msgspec.Struct, eq=False, gc=False):
    """A row in memory; ``value`` None means that there is no row.

    It is a Struct without garbage collection because a batch creates tens of thousands of rows.
    """

    key: Any
    key_bytes: bytes
    """The encoded key."""
    value: Any
    timestamp: int
    before: Any
    """The value before the changes that have not been forwarded yet."""
    changed: bool = False
    headers: Headers = ()
    """The headers of the last update, if it is forwarded later."""


class KeyValueStore:
    """Rows of a table inside one transaction.

    Operators change rows through ``row`` and ``mark``; nothing is written before ``flush``. Counts of many records use
    ``count`` and ``take_counted``, which create no object for a row.
    """

    def __init__(self, txn: Transaction, database: Database, codec: Serde, name: str = "") -> None:
        self._name = name
        self._serde = codec
        self._txn = txn
        self._database = database
        self._encode = codec.encode
        self._decode = codec.decode
        self._encode_column: Callable[[list[Any]], list[bytes]] | None = getattr(codec, "encode_values", None)
        self._decode_column: Callable[[list[bytes]], list[Any]] | None = getattr(codec, "decode_values", None)
        self._rows: dict[Any, StoredRow] = {}
        self._loaded: list[list[StoredRow]] = []
        """The rows in memory that were loaded together, in key order."""
        self._changed: list[StoredRow] = []
        self._counted = CountedRecords()
        """Records that are not yet part of any row; there are none while rows are in memory."""

    def row(self, key: Any) -> StoredRow:
        """Return the row of a key, an empty one if there is none; changes to it must be marked."""
        # text and integers are used as they are; other keys as bytes, because True == 1 == 1.0
        kind = type(key)
        row = self._rows.get(key if kind is str or kind is int else encode_key(key))
        return self._load(key) if row is None else row

    def rows(self, keys: list[Any]) -> list[StoredRow]:
        """Return the rows of many keys; rows that are not in memory are read in one pass, which is faster."""
        hashables = hashable_keys(keys)
        self._apply_counted()
        missing = set(hashables).difference(self._rows) if self._rows else set(hashables)
        if missing:
            self._load_all(missing)
        return list(map(self._rows.__getitem__, hashables))

    def find(self, key: Any) -> tuple[Any, int]:
        """Return value and timestamp of a key, (None, -1) if there is no row."""
        kind = type(key)
        row = self._rows.get(key if kind is str or kind is int else encode_key(key))
        if row is None:
            row = self._load(key)
        return (None, -1) if row.value is None else (row.value, row.timestamp)

    def mark(self, row: StoredRow) -> None:
        """Mark a row as changed."""
        if not row.changed:
            row.changed = True
            self._changed.append(row)

    def take_changed(self) -> list[StoredRow]:
        """Return the rows that changed since the last call; ``before`` is the value at that time."""
        self._apply_counted()
        changed, self._changed = self._changed, []
        self._write(changed)
        return changed

    def count(self, keys: list[Any], timestamps: Any, codes: Any = None) -> None:
        """Add one to the row of each record's key; a row's timestamp never decreases.

        Timestamps are a list or an array. With ``codes``, the keys are distinct, and these are their indexes.
        """
        if self._rows or len(timestamps) < _MANY_COUNTED or not self._counted.add(keys, timestamps, _KEY_LIMIT, codes):
            records = (keys, timestamps) if codes is None else CodedRecords(keys, codes, timestamps).lists()
            self._count_rows(*records)

    def take_counted(self) -> CountedRows | None:
        """Write what was counted and return the rows; None if there are none, or ``take_changed`` returns them."""
        if not self._counted:
            return None
        counted = CountedKeys(self._counted.take())
        with self._txn.cursor(self._database) as cursor:
            values, timestamps = add_counts(
                cursor,
                counted,
                lambda key_bytes, data: self._decoded(map(decode_key, key_bytes), data),
                lambda key_bytes, values: self._encoded(map(decode_key, key_bytes), values),
            )
        return counted.rows(values, timestamps)

    def _apply_counted(self) -> None:
        """Make what was counted part of rows in memory, before they are used in another way."""
        if self._counted:
            self._count_rows(*self._counted.take().lists())

    def _count_rows(self, keys: list[Any], timestamps: list[int]) -> None:
        for row, timestamp in zip(self.rows(keys), timestamps, strict=True):
            count = row.value
            if count is None:
                row.value, row.timestamp = 1, timestamp
            else:
                row.value = count + 1
                if row.timestamp < timestamp:
                    row.timestamp = timestamp
            if not row.changed:
                self.mark(row)
            elif row.headers:
                row.headers = ()

    def get(self, key: Any) -> Any:
        """Return the value of a key, or None."""
        return self.row(key).value

    def items(self, start: bytes = b"", stop: bytes | None = None) -> Iterator[tuple[Any, Any, int]]:
        """Yield (key, value, timestamp) in key order; bounds are encoded keys, ``stop`` is not included."""
        self.flush()
        return scan(self._txn, self._database, self._decode, start, stop)

    def __len__(self) -> int:
        self.flush()
        return int(self._txn.stat(self._database)["entries"])

    def flush(self) -> None:
        """Write all changed rows in key order, the order in which LMDB writes fastest."""
        self._apply_counted()
        self._write(self._changed)

    def release(self) -> None:
        """Release the memory; all changes must have been written."""
        self._rows.clear()
        self._loaded.clear()
        self._changed.clear()
        self._counted.clear()

    def write_through(self) -> None:
        """Write all changed rows; for stores whose changes are not forwarded."""
        self.reset_changes(self.take_changed())

    def _load(self, key: Any) -> StoredRow:
        """Read a row into memory."""
        if self._counted:
            self._apply_counted()
            return self.row(key)
        key_bytes, value, timestamp = encode_key(key), None, -1
        stored = self._txn.get(key_bytes if len(key_bytes) < _KEY_LIMIT else _physical(key_bytes), db=self._database)
        if stored is not None:
            try:
                value, timestamp = _read(key_bytes, stored, self._decode)
            except Exception as error:
                raise self._serde_error("read", key, error) from error
        row = StoredRow(key, key_bytes, value, timestamp, value)
        self._rows[key if type(key) is str or type(key) is int else key_bytes] = row
        return row

    def _load_all(self, hashables: set[Any]) -> None:
        """Read rows into memory in key order, so that one pass over the pages finds them all."""
        handles, key_bytes = ordered_keys(hashables)
        if max(map(len, key_bytes)) >= _KEY_LIMIT:
            for handle, encoded in zip(handles, key_bytes, strict=True):
                self._load(_key_of(handle, encoded))
            return
        keys = list(map(_key_of, handles, key_bytes)) if bytes in set(map(type, handles)) else handles
        with self._txn.cursor(self._database) as cursor:
            pairs = cursor.getmulti(key_bytes)
        if len(pairs) == len(key_bytes):
            loaded = self._stored_rows(keys, key_bytes, [stored for _, stored in pairs])
        else:  # keys without a row
            by_key = dict(pairs)
            known = [index for index, encoded in enumerate(key_bytes) if encoded in by_key]
            loaded = [StoredRow(key, encoded, None, -1, None) for key, encoded in zip(keys, key_bytes, strict=True)]
            existing = self._stored_rows(
                [keys[index] for index in known], [key for key, _ in pairs], [stored for _, stored in pairs]
            )
            for index, row in zip(known, existing, strict=True):
                loaded[index] = row
        self._rows.update(zip(handles, loaded, strict=True))
        self._loaded.append(loaded)

    def _stored_rows(self, keys: list[Any], key_bytes: list[bytes], stored: list[bytes]) -> list[StoredRow]:
        """Return rows in memory for what is stored."""
        skip = _timestamp.size
        values = self._decoded(keys, [item[skip:] for item in stored])
        timestamps = map(_first, map(_timestamp.unpack_from, stored))
        return list(map(StoredRow, keys, key_bytes, values, timestamps, values))

    def _decoded(self, keys: Iterable[Any], data: list[bytes]) -> list[Any]:
        """Decode values; all in one call if the codec can do that, one by one to find the one that fails."""
        if self._decode_column is not None:
            with suppress(Exception):
                return self._decode_column(data)
        values: list[Any] = []
        for key, item in zip(keys, data, strict=True):
            try:
                values.append(self._decode(item))
            except Exception as error:
                raise self._serde_error("read", key, error) from error
        return values

    def _serde_error(self, verb: str, key: Any, error: Exception) -> SerdeError:
        return SerdeError(
            f"row {shown(key):.60} of table {self._name!r} cannot be {verb} as {self._serde.name}: {error_text(error)}",
            hint="declare the type of the table's values with value=, for example value=MyType",
            table=self._name,
        )

    def _write(self, rows: list[StoredRow]) -> None:
        rows = self._in_key_order(rows)
        kept = [row for row in rows if row.value is not None]
        if len(kept) < len(rows):
            for row in rows:
                if row.value is None:
                    self._txn.delete(_physical(row.key_bytes), db=self._database)
        if kept:
            keys, timestamps = [row.key_bytes for row in kept], [row.timestamp for row in kept]
            values = self._encoded([row.key for row in kept], [row.value for row in kept])
            data = map(add, map(_timestamp.pack, timestamps), values)
            items: Iterable[tuple[bytes, bytes]] = zip(keys, data, strict=True)
            if max(map(len, keys)) >= _KEY_LIMIT:
                items = itertools.starmap(_shortened, items)
            with self._txn.cursor(self._database) as cursor:
                cursor.putmulti(items)

    def _encoded(self, keys: Iterable[Any], values: list[Any]) -> list[bytes]:
        """Encode values; all in one call if the codec can do that, one by one to find the one that fails."""
        if self._encode_column is not None:
            with suppress(Exception):
                return self._encode_column(values)
        encoded: list[bytes] = []
        for key, value in zip(keys, values, strict=True):
            try:
                encoded.append(self._encode(value))
            except Exception as error:
                raise self._serde_error("written", key, error) from error
        return encoded

    def _in_key_order(self, rows: list[StoredRow]) -> list[StoredRow]:
        """Sort changed rows; most of them were loaded in key order, and sorting sorted runs takes a tenth."""
        if len(rows) >= _MANY_ROWS:
            ordered = [row for loaded in self._loaded for row in loaded if row.changed]
            if len(ordered) == len(rows):
                return ordered if len(self._loaded) == 1 else sorted(ordered, key=_key_bytes_of)
        return sorted(rows, key=_key_bytes_of)

    def reset_changes(self, rows: list[StoredRow]) -> None:
        """Mark rows as unchanged, after they were written and forwarded."""
        for row in rows:
            row.changed = False
            row.before = row.value
            row.headers = ()


def scan(
    txn: Transaction, database: Database, decode: Any, start: bytes = b"", stop: bytes | None = None
) -> Iterator[tuple[Any, Any, int]]:
    """Yield (key, value, timestamp) of stored rows in key order."""
    with txn.cursor(database) as cursor:
        if not cursor.set_range(start):
            return
        for physical, stored in cursor:
            if stop is not None and physical >= stop:
                return
            key = logical_key(physical, stored)
            yield (decode_key(key), *_read(key, stored, decode))


def fetch(txn: Transaction, database: Database, decode: Any, key: Any) -> tuple[Any, int] | None:
    """Return value and timestamp of a stored row."""
    encoded = encode_key(key)
    stored = txn.get(_physical(encoded), db=database)
    return None if stored is None else _read(encoded, stored, decode)


def _key_of(handle: Any, encoded: bytes) -> Any:
    """Return the key of a handle, under which a row is kept in memory."""
    return decode_key(encoded) if type(handle) is bytes else handle


def _shortened(key: bytes, data: bytes) -> tuple[bytes, bytes]:
    """Return what is stored for a row; a long key is stored with its value."""
    if len(key) < _KEY_LIMIT:
        return key, data
    return _physical(key), KEY_LENGTH.pack(len(key)) + key + data


def _physical(key: bytes) -> bytes:
    """Return the LMDB key of a row."""
    return shorten_key(key, _KEY_LIMIT)


def logical_key(physical: bytes, stored: bytes) -> bytes:
    """Return the encoded key of a stored row."""
    if not is_shortened(physical, _KEY_LIMIT):
        return physical
    (length,) = KEY_LENGTH.unpack_from(stored)
    return stored[KEY_LENGTH.size : KEY_LENGTH.size + length]


def _read(key: bytes, stored: bytes, decode: Any) -> tuple[Any, int]:
    skip = 0 if len(key) < _KEY_LIMIT else KEY_LENGTH.size + len(key)
    (timestamp,) = _timestamp.unpack_from(stored, skip)
    return decode(stored[skip + _timestamp.size :]), timestamp
