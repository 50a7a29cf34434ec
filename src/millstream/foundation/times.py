"""Parse and format timestamps and durations as people write them."""

from __future__ import annotations

import time
from datetime import UTC, datetime

from millstream.durations import milliseconds
from millstream.errors import DefinitionError

_UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s"), (1, "ms"))
_MAX_AGE = 1 << 62


def parse_timestamp(text: str) -> int | None:
    """Return the epoch milliseconds of an ISO date, or of a duration before now; None if the text is neither.

    >>> parse_timestamp("2025-01-01T00:00:00Z"), parse_timestamp("soon")
    (1735689600000, None)
    """
    try:
        return round(datetime.fromisoformat(text).astimezone().timestamp() * 1000)
    except (ValueError, OverflowError, OSError):
        pass
    try:
        age = milliseconds(text)
    except DefinitionError:
        return None
    return time.time_ns() // 1_000_000 - age if age < _MAX_AGE else None


def format_timestamp(timestamp: int) -> str:
    """Format a timestamp as ISO 8601 in UTC.

    >>> format_timestamp(1735689600000)
    '2025-01-01T00:00:00.000Z'
    """
    try:
        return datetime.fromtimestamp(timestamp / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except (ValueError, OverflowError, OSError):
        return str(timestamp)


def format_duration(duration: int) -> str:
    """Format milliseconds with the largest unit that divides them.

    >>> format_duration(604_800_000), format_duration(90_000), format_duration(1)
    ('7 d', '90 s', '1 ms')
    """
    length, unit = next((length, unit) for length, unit in _UNITS if duration % length == 0)
    return f"{duration // length} {unit}"
