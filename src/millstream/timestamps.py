"""Where event time comes from, and what happens to records without a valid time."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, Literal, TypeAlias, get_args

from millstream.errors import DefinitionError
from millstream.foundation.headers import TIMESTAMP_LIMIT
from millstream.foundation.text import shown
from millstream.foundation.type_variables import V2
from millstream.functions import AnyFunction, Context, Function, KeyedFunction, ValueFunction, by_arity

Clock: TypeAlias = Literal["record", "append", "wall_clock"]
"""record: the record's own time; append: when the log appended it; wall_clock: when its batch was planned."""

OnInvalid: TypeAlias = Literal["fail", "skip", "partition_time"]
"""What happens to a record whose time is missing or before 1970."""

TimestampLike: TypeAlias = AnyFunction | Clock | None
"""What ``timestamp=`` takes."""

Moment: TypeAlias = datetime | float | None
"""What a timestamp function returns: a datetime, milliseconds since 1970, or None if there is none."""
ValueTimestamp: TypeAlias = ValueFunction[V2, Moment] | Clock | None
KeyedTimestamp: TypeAlias = KeyedFunction[Any, Any, Moment]

Part: TypeAlias = str | Callable[[Any], Any]
"""A field of the value by name, or a function of the value."""


def timestamp_source(given: TimestampLike) -> Function | Clock:
    """Return the checked ``timestamp=`` of a source."""
    if isinstance(given, str):
        if given not in get_args(Clock):
            raise DefinitionError(
                f"timestamp={given!r} is unknown", hint='use "record", "append", "wall_clock" or a function'
            )
        return given
    return "record" if given is None else by_arity("timestamp", given)


def checked_on_invalid(given: str) -> OnInvalid:
    """Return the checked ``on_invalid=`` of a source."""
    for policy in get_args(OnInvalid):
        if given == policy:
            return policy  # type: ignore[no-any-return]
    raise DefinitionError(f"on_invalid={given!r} is unknown", hint='use "fail", "skip" or "partition_time"')


def device_clock(*, occurred: Part, sent: Part, received: Part | None = None) -> Callable[[Any, Any, Context], int]:
    """Correct timestamps of devices whose clocks are wrong.

    A device reports when something ``occurred`` and when it ``sent`` the record, both by its own clock. The record was
    ``received`` by a correct clock, by default the record's timestamp. The time between the two on the device is
    trusted, the device's clock is not: event time is received - (sent - occurred).

    >>> app = App("doc")
    >>> app.stream("sensor", timestamp=device_clock(occurred="at", sent="sent")).to("out")
    >>> from millstream.testing import TestDriver
    >>> with TestDriver(app) as driver:
    ...     driver.topic("sensor").pipe({"at": 100, "sent": 400}, timestamp=60_000)
    ...     driver.topic("out").read()[0].timestamp
    59700
    """
    occurred_at, sent_at = _getter(occurred), _getter(sent)
    received_at = None if received is None else _getter(received)

    def corrected(_key: Any, value: Any, context: Context) -> int:
        arrived = context.timestamp if received_at is None else milliseconds_of(received_at(value))
        return arrived - (milliseconds_of(sent_at(value)) - milliseconds_of(occurred_at(value)))

    return corrected


def _getter(part: Part) -> Callable[[Any], Any]:
    if not isinstance(part, str):
        return part
    return lambda value: value[part] if isinstance(value, dict) else getattr(value, part)


def milliseconds_of(moment: Any) -> int:
    """Return a datetime or a number as milliseconds since 1970; -1 for None, NaN and times that cannot be stored."""
    if isinstance(moment, int):
        return moment if moment < TIMESTAMP_LIMIT else -1
    if moment is None or moment != moment:  # NaN differs from itself
        return -1
    if isinstance(moment, float):
        return int(moment) if moment < TIMESTAMP_LIMIT else -1
    if isinstance(moment, datetime):
        try:
            return round(moment.timestamp() * 1000)
        except (OverflowError, ValueError):  # without a time zone, the first and last days cannot be converted
            return -1
    raise TypeError(f"{shown(moment):.60} is not a timestamp: return a datetime or milliseconds since 1970")
