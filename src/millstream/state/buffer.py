"""Records that wait until stream time reaches them, ordered by timestamp, key and arrival.

Records that arrive during a batch are kept in memory. Stored records are read in chunks, only as far as they are due.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Iterator
from heapq import heappop, heappush
from typing import Any, TypeAlias

import msgspec

from millstream.foundation.object_codec import decode_key, encode_key
from millstream.foundation.transactions import Database, Transaction
from millstream.records import Headers
from millstream.serdes import Serde
from millstream.state.encoding import shorten_key

BufferedRecord: TypeAlias = tuple[Any, Any, int, Headers]
"""key, value, timestamp, headers"""

_Position: TypeAlias = tuple[int, bytes, int]
"""timestamp, encoded key, sequence number by arrival"""

_number = struct.Struct(">Q")
_RECORDS = b"e"
_NUMBERS = b"n"
_KEY_LIMIT = 400
_READ_AT_ONCE = 256


class _StoredRecord(msgspec.Struct, array_like=True):
    key: bytes
    value: bytes
    headers: Headers


_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder(_StoredRecord).decode
_unpack_numbers = msgspec.msgpack.Decoder(tuple[int, int]).decode


class RecordBuffer:
    """The buffer inside one transaction."""

    def __init__(self, txn: Transaction, database: Database, codec: Serde) -> None:
        self._txn = txn
        self._database = database
        self._encode, self._decode = codec.encode, codec.decode
        self._new: list[tuple[_Position, BufferedRecord]] = []
        self._read_ahead: deque[tuple[_Position, bytes, bytes]] = deque()
        self._read_from: bytes | None = _RECORDS
        self._taken_up_to: bytes | None = None
        numbers = txn.get(_NUMBERS, db=database)
        self.observed, self._arrivals = (-1, 0) if numbers is None else _unpack_numbers(numbers)
        """``observed`` is the latest timestamp that was put here."""

    def put(self, key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        """Add a record."""
        if timestamp > self.observed:
            self.observed = timestamp
        self._arrivals += 1
        position = timestamp, shorten_key(encode_key(key), _KEY_LIMIT), self._arrivals
        heappush(self._new, (position, (key, value, timestamp, headers)))

    def take_until(self, time: int) -> Iterator[BufferedRecord]:
        """Yield and remove the records with a timestamp up to ``time``."""
        while True:
            stored, new = self._first_stored(), self._new[0][0] if self._new else None
            if stored is not None and (new is None or stored < new):
                if stored[0] > time:
                    return
                yield self._take_stored()
            elif new is not None and new[0] <= time:
                yield heappop(self._new)[1]
            else:
                return

    def __len__(self) -> int:
        return int(self._txn.stat(self._database)["entries"]) - 1

    def flush(self) -> None:
        """Write new records and delete those that were taken."""
        if self._taken_up_to is not None:
            with self._txn.cursor(self._database) as cursor:
                has_record = cursor.set_range(_RECORDS)
                while has_record and cursor.key() <= self._taken_up_to:
                    has_record = cursor.delete()
        for (timestamp, key_bytes, number), (key, value, _, headers) in sorted(self._new, key=lambda new: new[0]):
            physical = _RECORDS + _number.pack(timestamp) + key_bytes + _number.pack(number)
            stored = _StoredRecord(encode_key(key), self._encode(value), headers)
            self._txn.put(physical, _pack(stored), db=self._database)
        self._txn.put(_NUMBERS, _pack((self.observed, self._arrivals)), db=self._database)
        self._new, self._read_ahead, self._read_from, self._taken_up_to = [], deque(), _RECORDS, None

    def _first_stored(self) -> _Position | None:
        if not self._read_ahead and self._read_from is not None:
            self._read_chunk(self._read_from)
        return self._read_ahead[0][0] if self._read_ahead else None

    def _read_chunk(self, start: bytes) -> None:
        """Read the next stored records."""
        with self._txn.cursor(self._database) as cursor:
            has_record = cursor.set_range(start)
            while has_record and cursor.key()[:1] == _RECORDS and len(self._read_ahead) < _READ_AT_ONCE:
                physical = cursor.key()
                (timestamp,), (number,) = _number.unpack(physical[1:9]), _number.unpack(physical[-8:])
                self._read_ahead.append(((timestamp, physical[9:-8], number), physical, cursor.value()))
                has_record = cursor.next()
        self._read_from = self._read_ahead[-1][1] + b"\0" if len(self._read_ahead) == _READ_AT_ONCE else None

    def _take_stored(self) -> BufferedRecord:
        (timestamp, _, _), physical, data = self._read_ahead.popleft()
        self._taken_up_to = physical
        stored = _unpack(data)
        return decode_key(stored.key), self._decode(stored.value), timestamp, stored.headers
