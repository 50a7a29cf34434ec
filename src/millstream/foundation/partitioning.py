"""The partition of a key: murmur2 of its bytes, exactly as in Kafka's Java client."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

_SEED = 0x9747B28C
_M = 0x5BD1E995
_MASK = 0xFFFFFFFF
_MIN_VECTOR_KEYS = 64  # below this many keys a Python loop is faster than numpy
_CACHE_SIZE = 1 << 14  # keys repeat, and a lookup needs a tenth of the time of hashing
_MAX_CACHED_BYTES = 256


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


_cached_murmur2 = lru_cache(_CACHE_SIZE)(murmur2)


def partition_of(key: bytes, partitions: int) -> int:
    """Return the partition of a non-null key."""
    is_cacheable = type(key) is bytes and len(key) <= _MAX_CACHED_BYTES  # a serde may return a bytes-like object
    return ((_cached_murmur2(key) if is_cacheable else murmur2(key)) & 0x7FFFFFFF) % partitions


def partitions_of(keys: Sequence[bytes], partitions: int) -> Any:
    """Return the partitions of many non-null keys as an array of integers, vectorised by key length."""
    if partitions == 1:
        return np.zeros(len(keys), np.int64)
    if len(keys) < _MIN_VECTOR_KEYS:
        return np.array([partition_of(key, partitions) for key in keys], np.int64)
    lengths = np.fromiter(map(len, keys), np.int64, len(keys))
    starts = np.cumsum(lengths) - lengths
    return partitions_of_slices(starts, lengths, np.frombuffer(b"".join(keys), np.uint8), partitions)


def partitions_of_slices(starts: Any, lengths: Any, data: Any, partitions: int) -> Any:
    """Return the partitions of many keys, each a slice of some bytes."""
    hashes = np.empty(len(starts), np.uint32)
    for length in np.unique(lengths).tolist():
        rows = np.flatnonzero(lengths == length)
        hashes[rows] = _murmur2_rows(_bytes_at(data, starts[rows], length), length)
    return (hashes & np.uint32(0x7FFFFFFF)).astype(np.int64) % partitions


def _bytes_at(data: Any, starts: Any, length: int) -> Any:
    """Return slices of one length as the rows of a matrix."""
    if not length:
        return np.empty((len(starts), 0), np.uint8)
    windows = np.ndarray(len(data) - length + 1, f"V{length}", data, strides=(1,))
    return windows[starts].view(np.uint8).reshape(len(starts), length)


def _murmur2_rows(rows: Any, length: int) -> Any:
    """Hash the rows of a matrix of bytes."""
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
