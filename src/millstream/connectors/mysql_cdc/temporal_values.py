"""Dates and times of the binary log as texts."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from functools import lru_cache

_DATETIME_ZERO = 0x8000000000
_MONTHS = 13
_NO_TIME = "0000-00-00 00:00:00"


def _fraction(data: bytes, at: int, size: int, decimals: int) -> str:
    """Return the decimals of a second: two digits are one byte."""
    if not decimals:
        return ""
    return "." + str(int.from_bytes(data[at : at + size], "big")).zfill(2 * size)[:decimals]


def date_value(data: bytes, at: int) -> tuple[bytes, int]:
    """Read a DATE."""
    packed = int.from_bytes(data[at : at + 3], "little")
    return b"%04d-%02d-%02d" % (packed >> 9, packed >> 5 & 15, packed & 31), at + 3


def datetime_value(decimals: int) -> Callable[[bytes, int], tuple[bytes, int]]:
    """Return what reads a DATETIME."""
    size = (decimals + 1) // 2

    def read(data: bytes, at: int) -> tuple[bytes, int]:
        packed = int.from_bytes(data[at : at + 5], "big") - _DATETIME_ZERO
        months = packed >> 22
        parts = (
            months // _MONTHS,
            months % _MONTHS,
            packed >> 17 & 31,
            packed >> 12 & 31,
            packed >> 6 & 63,
            packed & 63,
        )
        text = "%04d-%02d-%02d %02d:%02d:%02d" % parts  # noqa: UP031 - twice as fast here
        return (text + _fraction(data, at + 5, size, decimals)).encode(), at + 5 + size

    return read


@lru_cache(4096)
def _utc(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")


def timestamp_value(decimals: int) -> Callable[[bytes, int], tuple[bytes, int]]:
    """Return what reads a TIMESTAMP, which is in UTC."""
    size = (decimals + 1) // 2

    def read(data: bytes, at: int) -> tuple[bytes, int]:
        seconds = int.from_bytes(data[at : at + 4], "big")
        text = _utc(seconds) if seconds else _NO_TIME
        return (text + _fraction(data, at + 4, size, decimals) + "+00").encode(), at + 4 + size

    return read


def time_value(decimals: int) -> Callable[[bytes, int], tuple[bytes, int]]:
    """Return what reads a TIME, which may be negative or longer than a day."""
    size = (decimals + 1) // 2
    zero = 0x800000 << 8 * size

    def read(data: bytes, at: int) -> tuple[bytes, int]:
        packed = int.from_bytes(data[at : at + 3 + size], "big") - zero
        sign, packed = ("-", -packed) if packed < 0 else ("", packed)
        seconds, fraction = packed >> 8 * size, packed & (1 << 8 * size) - 1
        text = f"{sign}{seconds >> 12 & 1023:02}:{seconds >> 6 & 63:02}:{seconds & 63:02}"
        if decimals:
            text += "." + str(fraction).zfill(2 * size)[:decimals]
        return text.encode(), at + 3 + size

    return read
