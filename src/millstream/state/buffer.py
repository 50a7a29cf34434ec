"""Records that wait for their time, in order of timestamp, key and arrival.

What comes in during a batch is kept in memory; of what waits on the disk only the beginning is read, as far as it has
become due.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Iterator
from heapq import heappop, heappush
from typing import Any, TypeAlias

import msgspec

from millstream.foundation.object_codec import decode_key, encode_key
from millstream.records import Headers
from millstream.serdes import Serde
from millstream.state.encoding import fitted

Waiting: TypeAlias = tuple[Any, Any, int, Headers]
"""key, value, timestamp, headers"""

_Place: TypeAlias = tuple[int, bytes, int]
"""timestamp, bytes of the key, number by arrival"""

_number = struct.Struct(">Q")
_RECORDS = b"e"
_NUMBERS = b"n"
_LONGEST_NAME = 400
_READ_AT_ONCE = 256


class _Stored(msgspec.Struct, array_like=True):
    key: bytes
    value: bytes
    headers: Headers


_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder(_Stored).decode
_unpack_numbers = msgspec.msgpack.Decoder(tuple[int, int]).decode


class WaitingBuffer:
    """The buffer inside one transaction."""

    def __init__(self, txn: Any, database: Any, codec: Serde) -> None:
        self._txn = txn
        self._database = database
        self._encode, self._decode = codec.encode, codec.decode
        self._new: list[tuple[_Place, Waiting]] = []
        self._front: deque[tuple[_Place, bytes, bytes]] = deque()
        self._read_up_to: bytes | None = _RECORDS
        self._taken_up_to: bytes | None = None
        numbers = txn.get(_NUMBERS, db=database)
        self.observed, self._arrivals = (-1, 0) if numbers is None else _unpack_numbers(numbers)
        """The latest timestamp that was put here."""

    def put(self, key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        """Let a record wait."""
        if timestamp > self.observed:
            self.observed = timestamp
        self._arrivals += 1
        place = timestamp, fitted(encode_key(key), _LONGEST_NAME), self._arrivals
        heappush(self._new, (place, (key, value, timestamp, headers)))

    def take_until(self, time: int) -> Iterator[Waiting]:
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
        """Write what waits, and delete what was taken."""
        if self._taken_up_to is not None:
            with self._txn.cursor(self._database) as cursor:
                found = cursor.set_range(_RECORDS)
                while found and cursor.key() <= self._taken_up_to:
                    found = cursor.delete()
        for (timestamp, name, number), (key, value, _, headers) in sorted(self._new, key=lambda one: one[0]):
            physical = _RECORDS + _number.pack(timestamp) + name + _number.pack(number)
            stored = _Stored(encode_key(key), self._encode(value), headers)
            self._txn.put(physical, _pack(stored), db=self._database)
        self._txn.put(_NUMBERS, _pack((self.observed, self._arrivals)), db=self._database)
        self._new, self._front, self._read_up_to, self._taken_up_to = [], deque(), _RECORDS, None

    def _first_stored(self) -> _Place | None:
        if not self._front and self._read_up_to is not None:
            self._read_on(self._read_up_to)
        return self._front[0][0] if self._front else None

    def _read_on(self, start: bytes) -> None:
        """Read the next records from the disk."""
        with self._txn.cursor(self._database) as cursor:
            found = cursor.set_range(start)
            while found and cursor.key()[:1] == _RECORDS and len(self._front) < _READ_AT_ONCE:
                physical = cursor.key()
                (timestamp,), (number,) = _number.unpack(physical[1:9]), _number.unpack(physical[-8:])
                self._front.append(((timestamp, physical[9:-8], number), physical, cursor.value()))
                found = cursor.next()
        self._read_up_to = self._front[-1][1] + b"\0" if len(self._front) == _READ_AT_ONCE else None

    def _take_stored(self) -> Waiting:
        (timestamp, _, _), physical, data = self._front.popleft()
        self._taken_up_to = physical
        stored = _unpack(data)
        return decode_key(stored.key), self._decode(stored.value), timestamp, stored.headers
