"""Types of options: points in time, durations and sizes."""

from __future__ import annotations

import re

import click

from millstream.durations import milliseconds
from millstream.errors import DefinitionError
from millstream.foundation.times import parse_timestamp

_SIZE = re.compile(r"\s*(\d{1,15})\s*([kmgt]?)(i?)b?\s*", re.IGNORECASE)
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}
UNLIMITED = "none"


def parse_time(value: str) -> int:
    """Parse an option that is a point in time."""
    timestamp = parse_timestamp(value)
    if timestamp is None:
        raise click.BadParameter(f'{value!r} is not a valid time; use "2025-01-31T12:00", or "10 min" for a time ago')
    return timestamp


def parse_duration(value: str) -> int | str:
    """Parse an option that is a duration, in milliseconds, or ``none`` for unlimited."""
    try:
        return value if value == UNLIMITED else milliseconds(value)
    except DefinitionError as error:
        raise click.BadParameter(str(error)) from error


def parse_size(value: str) -> int | str:
    """Parse an option that is a number of bytes, or ``none`` for unlimited.

    >>> parse_size("512MB"), parse_size("1 KiB"), parse_size("none")
    (512000000, 1024, 'none')
    """
    if value == UNLIMITED:
        return value
    match = _SIZE.fullmatch(value)
    if match is None:
        raise click.BadParameter(f"{value!r} is not a valid size; use for example 1048576, 512MB or 1GiB")
    base = 1024 if match[3] else 1000
    return int(match[1]) * int(base ** _POWERS[match[2].lower()])
