"""Which partition a key belongs to: murmur2 of its bytes, exactly as Kafka's Java client."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

_SEED = 0x9747B28C
_M = 0x5BD1E995
_MASK = 0xFFFFFFFF
_VECTOR_FROM = 64  # below this many keys the plain loop is faster than setting up arrays
_REMEMBERED = 1 << 14  # keys come again, and looking one up takes a tenth of hashing it
_LONGEST_REMEMBERED = 256


def murmur2(data: bytes) -> int:
    """Return Kafka's murmur2 hash of ``data`` as an unsigned 32-bit number.

    >>> murmur2(b"21") == 0xFFFFFFFF & -973932308
    True
    """
    length = len(data)
    h = _SEED ^ length
    tail = length & ~3
    for i in range(0, tail, 4):
        k = int.from_bytes(data[i : i + 4], "little") * _M & _MASK
        k = (k ^ k >> 24) * _M & _MASK
        h = (h * _M & _MASK) ^ k
    if length != tail:
        h = (h ^ int.from_bytes(data[tail:], "little")) * _M & _MASK
    h = (h ^ h >> 13) * _M & _MASK
    return h ^ h >> 15


_remembered = lru_cache(_REMEMBERED)(murmur2)


def partition_of(key: bytes, partitions: int) -> int:
    """Return the partition of a non-null key."""
    is_remembered = type(key) is bytes and len(key) <= _LONGEST_REMEMBERED  # a serde may give something like bytes
    return ((_remembered(key) if is_remembered else murmur2(key)) & 0x7FFFFFFF) % partitions


def partitions_of(keys: Sequence[bytes], partitions: int) -> Any:
    """Return the partitions of many non-null keys as an array of numbers; vectorised by key length."""
    if partitions == 1:
        return np.zeros(len(keys), np.int64)
    if len(keys) < _VECTOR_FROM:
        return np.array([partition_of(key, partitions) for key in keys], np.int64)
    lengths = np.fromiter(map(len, keys), np.int64, len(keys))
    ends = np.cumsum(lengths)
    data = np.frombuffer(b"".join(keys), np.uint8)
    hashes = np.empty(len(keys), np.uint32)
    for length in np.unique(lengths).tolist():
        rows = np.flatnonzero(lengths == length)
        starts = ends[rows] - length
        hashes[rows] = _murmur2_rows(data[starts[:, None] + np.arange(length)], length)
    return (hashes & np.uint32(0x7FFFFFFF)).astype(np.int64) % partitions


def _murmur2_rows(rows: Any, length: int) -> Any:
    """Hash the rows of a matrix of bytes, all of one length."""
    m = np.uint32(_M)
    h = np.full(len(rows), _SEED ^ length, np.uint32)
    words = length // 4
    if words:
        block = np.ascontiguousarray(rows[:, : words * 4]).view("<u4")
        for i in range(words):
            k = block[:, i] * m
            k = (k ^ k >> np.uint32(24)) * m
            h = h * m ^ k
    if length % 4:
        tail = np.zeros(len(rows), np.uint32)
        for i in range(length % 4):
            tail |= rows[:, words * 4 + i].astype(np.uint32) << np.uint32(8 * i)
        h = (h ^ tail) * m
    h = (h ^ h >> np.uint32(13)) * m
    return h ^ h >> np.uint32(15)
