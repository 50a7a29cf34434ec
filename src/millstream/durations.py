"""Spans of time as people write them: ``"5 min"`` or a ``timedelta``; milliseconds inside."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TypeAlias

from millstream.errors import DefinitionError

Duration: TypeAlias = str | timedelta

_MILLISECONDS = {
    "ms": 1,
    "s": 1_000,
    "sec": 1_000,
    "second": 1_000,
    "min": 60_000,
    "minute": 60_000,
    "h": 3_600_000,
    "hour": 3_600_000,
    "d": 86_400_000,
    "day": 86_400_000,
    "week": 604_800_000,
}
_FORM = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]+)\s*")


def milliseconds(duration: Duration) -> int:
    """Return the whole milliseconds of a duration.

    >>> milliseconds("5 min"), milliseconds("1.5 s"), milliseconds(timedelta(hours=1))
    (300000, 1500, 3600000)
    """
    if isinstance(duration, timedelta):
        return duration // timedelta(milliseconds=1)
    match = _FORM.fullmatch(duration) if isinstance(duration, str) else None
    factor = match and (_MILLISECONDS.get(match[2]) or _MILLISECONDS.get(match[2].removesuffix("s")))
    if match is None or factor is None:
        raise DefinitionError(
            f"{duration!r} is not a duration", hint='write "500 ms", "10 s", "5 min", "2 h", "7 d" or a timedelta'
        )
    return round(float(match[1]) * factor)
