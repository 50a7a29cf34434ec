"""Numbers and texts whose length is part of them, as MySQL's protocol writes them."""

from __future__ import annotations


def read_integer(data: bytes, at: int) -> tuple[int, int]:
    """Return a number of variable length, and where it ends.

    >>> read_integer(bytes([250]), 0), read_integer(bytes([252, 1, 2]), 0)
    ((250, 1), (513, 3))
    """
    first = data[at]
    if first < 251:
        return first, at + 1
    size = {252: 2, 253: 3, 254: 8}[first]
    return int.from_bytes(data[at + 1 : at + 1 + size], "little"), at + 1 + size


def read_bytes(data: bytes, at: int) -> tuple[bytes, int]:
    """Return bytes after their length, and where they end."""
    length, at = read_integer(data, at)
    return data[at : at + length], at + length


def read_integers(data: bytes) -> list[int]:
    """Return all numbers of some bytes."""
    numbers, at = [], 0
    while at < len(data):
        number, at = read_integer(data, at)
        numbers.append(number)
    return numbers
