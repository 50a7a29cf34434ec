"""Keys and index entries of a topic as bytes; big-endian, so that byte order is offset order."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from hashlib import blake2b
from typing import NamedTuple

from millstream.foundation.transactions import Cursor, Database, Transaction

DATABASES = ("blobs", "index", "producers", "bounds")
PLAIN_DATABASES = ("blobs",)
"""The checksum of a blob is in its index entry, so that reading the index does not read blobs."""
ID_KEY = b"id"
CATALOG_KEY = b"catalog"

_KEY = struct.Struct(">IQ")
_SPAN = struct.Struct(">IQqqqqQB")
_CHECKSUM = struct.Struct(">I")
_BOUNDS = struct.Struct(">QQQqQqQQ")
_PARTITION = struct.Struct(">I")
_SEQUENCE = struct.Struct(">q")
_MAX_NAME_BYTES = 400  # longer producer names are hashed; LMDB keys have at most 511 bytes
_SPARSE = 1
_MIN_TIMESTAMP = -(2**63)


class Span(NamedTuple):
    """Index entry of one blob, which covers the offsets ``base <= offset < next_offset``."""

    base: int
    next_offset: int
    records: int
    first_time: int
    last_time: int
    """Smallest and largest timestamp of its records."""
    peak_time: int
    """Largest timestamp of the partition up to this blob; it never decreases, which allows binary search."""
    appended: int
    bytes: int
    sparse: bool
    checksum: int | None = None
    """CRC-32 of the blob; None for a blob of an earlier version, whose index entry ends before it."""


class Bounds(NamedTuple):
    """Offsets, size and cleaning progress of a partition."""

    begin: int = 0
    end: int = 0
    bytes: int = 0
    peak_time: int = _MIN_TIMESTAMP
    new_blobs: int = 0
    """Number of blobs appended since the last cleaning."""
    cleaned: int = 0
    """Time of the last cleaning in epoch milliseconds."""
    merged_to: int = 0
    """Small blobs before this offset are merged."""
    compacted_to: int = 0
    """Records before this offset are compacted."""


def blob_key(partition: int, offset: int) -> bytes:
    """Return the key of a blob in ``blobs`` and ``index``."""
    return _KEY.pack(partition, offset)


def partition_key(partition: int) -> bytes:
    """Return the key of a partition in ``bounds``."""
    return _PARTITION.pack(partition)


def producer_key(partition: int, producer: str) -> bytes:
    """Return the key of a producer's last sequence; a long name is replaced by its digest."""
    name = producer.encode()
    return _PARTITION.pack(partition) + (name if len(name) <= _MAX_NAME_BYTES else blake2b(name).digest())


def pack_sequence(sequence: int) -> bytes:
    return _SEQUENCE.pack(sequence)


def unpack_sequence(data: bytes) -> int:
    return int(_SEQUENCE.unpack(data)[0])


def pack_span(span: Span) -> bytes:
    packed = _SPAN.pack(
        span.records,
        span.next_offset,
        span.first_time,
        span.last_time,
        span.peak_time,
        span.appended,
        span.bytes,
        _SPARSE if span.sparse else 0,
    )
    return packed if span.checksum is None else packed + _CHECKSUM.pack(span.checksum)


def unpack_span(base: int, data: bytes) -> Span:
    count, next_offset, first, last, peak, appended, size, flags = _SPAN.unpack_from(data)
    checksum = _CHECKSUM.unpack_from(data, _SPAN.size)[0] if len(data) > _SPAN.size else None
    return Span(base, next_offset, count, first, last, peak, appended, size, bool(flags & _SPARSE), checksum)


def pack_bounds(bounds: Bounds) -> bytes:
    return _BOUNDS.pack(*bounds)


def unpack_bounds(data: bytes | None) -> Bounds:
    return Bounds() if data is None else Bounds(*_BOUNDS.unpack(data))


def spans(txn: Transaction, index: Database, partition: int, start: int) -> Iterator[Span]:
    """Yield the spans of a partition in order, starting with the span that covers ``start``."""
    with txn.cursor(db=index) as cursor:
        is_positioned = cursor.set_range(blob_key(partition, start))
        if not (is_positioned and cursor.key() == blob_key(partition, start)):
            _step_back(cursor, is_positioned, partition, start)
        for key, data in cursor.iternext() if cursor.key() else ():
            owner, base = _KEY.unpack(key)
            if owner != partition:
                return
            span = unpack_span(base, data)
            if span.next_offset > start:
                yield span


def _step_back(cursor: Cursor, is_positioned: bool, partition: int, start: int) -> None:
    """Move to the blob that starts before ``start``, if the partition has one."""
    has_moved = cursor.prev() if is_positioned else cursor.last()
    if not has_moved or _KEY.unpack(cursor.key())[0] != partition:
        cursor.set_range(blob_key(partition, start))
