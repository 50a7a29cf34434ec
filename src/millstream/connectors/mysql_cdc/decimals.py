"""Decimal numbers of the binary log as texts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

_DIGITS: Final = 9
_DIGIT_BYTES = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)


def decimal_value(precision: int, scale: int) -> Callable[[bytes, int], tuple[bytes, int]]:
    """Return what reads a number whose digits are stored in groups of nine, each in up to four bytes."""
    whole = precision - scale
    groups = [whole % _DIGITS, *[_DIGITS] * (whole // _DIGITS), *[_DIGITS] * (scale // _DIGITS), scale % _DIGITS]
    layout = [(_DIGIT_BYTES[digits], 10**digits) for digits in groups]
    size = sum(length for length, _ in layout)
    sign_bit, ones, unit = 1 << (8 * size - 1), (1 << 8 * size) - 1, 10**scale

    def read(data: bytes, at: int) -> tuple[bytes, int]:
        stored = int.from_bytes(data[at : at + size], "big") ^ sign_bit
        is_negative = bool(stored & sign_bit)
        raw = (stored ^ ones if is_negative else stored).to_bytes(size, "big")
        number, start = 0, 0
        for length, factor in layout:
            number = number * factor + int.from_bytes(raw[start : start + length], "big")
            start += length
        sign = b"-" if is_negative and number else b""
        if not scale:
            return b"%s%d" % (sign, number), at + size
        return b"%s%d.%0*d" % (sign, number // unit, scale, number % unit), at + size

    return read
