"""Points in time and sizes as people write them."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime

import click

from millstream.durations import milliseconds
from millstream.errors import DefinitionError

_SIZE = re.compile(r"\s*(\d{1,15})\s*([kmgt]?)(i?)b?\s*", re.IGNORECASE)
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}
_UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s"), (1, "ms"))
UNLIMITED = "none"


def moment(text: str) -> int | None:
    """Return the milliseconds since 1970 of an ISO date, or of a duration before now; None if it is neither.

    >>> moment("2025-01-01T00:00:00Z"), moment("soon")
    (1735689600000, None)
    """
    try:
        return round(datetime.fromisoformat(text).astimezone().timestamp() * 1000)
    except (ValueError, OverflowError, OSError):
        pass
    try:
        return time.time_ns() // 1_000_000 - milliseconds(text)
    except DefinitionError:
        return None


def iso(timestamp: int) -> str:
    """Return a timestamp as people read it, in UTC.

    >>> iso(1735689600000)
    '2025-01-01T00:00:00.000Z'
    """
    try:
        return datetime.fromtimestamp(timestamp / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except (ValueError, OverflowError, OSError):
        return str(timestamp)


def span(duration: int) -> str:
    """Return milliseconds as people write them.

    >>> span(604_800_000), span(90_000), span(1)
    ('7 d', '90 s', '1 ms')
    """
    length, unit = next(one for one in _UNITS if duration % one[0] == 0)
    return f"{duration // length} {unit}"


def as_moment(value: str) -> int:
    """Read an option that is a point in time."""
    found = moment(value)
    if found is None:
        raise click.BadParameter(f'{value!r} is not a time: write "2025-01-31T12:00" or, for a time ago, "10 min"')
    return found


def as_duration(value: str) -> int | str:
    """Read an option that is a duration, in milliseconds, or ``none`` for without limit."""
    try:
        return value if value == UNLIMITED else milliseconds(value)
    except DefinitionError as error:
        raise click.BadParameter(str(error)) from error


def as_size(value: str) -> int | str:
    """Read an option that is a number of bytes, or ``none`` for without limit.

    >>> as_size("512MB"), as_size("1 KiB"), as_size("none")
    (512000000, 1024, 'none')
    """
    if value == UNLIMITED:
        return value
    match = _SIZE.fullmatch(value)
    if match is None:
        raise click.BadParameter(f"{value!r} is not a size: write 1048576, 512MB or 1GiB")
    base = 1024 if match[3] else 1000
    return int(match[1]) * int(base ** _POWERS[match[2].lower()])
