"""Durations: text such as ``"5 min"`` or a ``timedelta``, converted to milliseconds."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TypeAlias

from millstream.errors import DefinitionError

Duration: TypeAlias = str | timedelta

_SYMBOLS = {"ms": 1, "s": 1_000, "h": 3_600_000, "d": 86_400_000}
_WORDS = {
    "sec": 1_000,
    "second": 1_000,
    "min": 60_000,
    "minute": 60_000,
    "hour": 3_600_000,
    "day": 86_400_000,
    "week": 604_800_000,
}
_MILLISECONDS = {**_SYMBOLS, **_WORDS, **{f"{word}s": length for word, length in _WORDS.items()}}
_PATTERN = re.compile(r"\s*([0-9]{1,15}(?:\.[0-9]{1,15})?)\s*([a-z]+)\s*")


def milliseconds(duration: Duration) -> int:
    """Return a duration in whole milliseconds.

    >>> milliseconds("5 min"), milliseconds("1.5 s"), milliseconds(timedelta(hours=1))
    (300000, 1500, 3600000)
    """
    if isinstance(duration, timedelta):
        return duration // timedelta(milliseconds=1)
    match = _PATTERN.fullmatch(str(duration))
    if match is None or match[2] not in _MILLISECONDS:
        raise DefinitionError(
            f"{duration!r} is not a duration", hint='write "500 ms", "10 s", "5 min", "2 h", "7 d" or a timedelta'
        )
    return round(float(match[1]) * _MILLISECONDS[match[2]])
