"""Points in time and sizes as options."""

from __future__ import annotations

import re

import click

from millstream.durations import milliseconds
from millstream.errors import DefinitionError
from millstream.foundation.times import parse_timestamp

_SIZE = re.compile(r"\s*(\d{1,15})\s*([kmgt]?)(i?)b?\s*", re.IGNORECASE)
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}
UNLIMITED = "none"


def as_moment(value: str) -> int:
    """Read an option that is a point in time."""
    found = parse_timestamp(value)
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
