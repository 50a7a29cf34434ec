"""Types of parameters that several operations share."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from msgspec import Meta

from millstream.errors import DefinitionError
from millstream.foundation.times import parse_timestamp

Name: TypeAlias = Annotated[str, Meta(min_length=1, max_length=200)]
Partition: TypeAlias = Annotated[int, Meta(ge=0, le=1_000_000)]
Offset: TypeAlias = Annotated[int, Meta(ge=0, le=2**62)]
Millis: TypeAlias = Annotated[int, Meta(ge=0, le=2**62, description="Milliseconds since 1970.")]
ShortText: TypeAlias = Annotated[str, Meta(max_length=1000)]
Limit: TypeAlias = Annotated[int, Meta(ge=1, le=500)]


def parse_time(text: str) -> int:
    """Return a point in time in milliseconds: itself in milliseconds, an ISO date, or a duration ago."""
    if text.isascii() and text.isdigit() and len(text) <= 18:
        return int(text)
    timestamp = parse_timestamp(text)
    if timestamp is None or timestamp < 0:
        raise DefinitionError(
            f"{text!r:.60} is not a valid time", hint='use milliseconds, "2025-01-31T12:00", or "10 min" for a time ago'
        )
    return timestamp
