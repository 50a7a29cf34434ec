"""Where event time comes from, and what becomes of records that have none."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, Literal, TypeAlias, get_args

from millstream.errors import DefinitionError
from millstream.functions import AnyFunction, Context, Function, by_arity

Clock: TypeAlias = Literal["record", "append", "wall_clock"]
"""record: the time that the record has; append: when the log took it; wall_clock: when its batch was planned."""

OnInvalid: TypeAlias = Literal["fail", "skip", "partition_time"]
"""What becomes of a record whose time is missing or before 1970."""

TimestampLike: TypeAlias = AnyFunction | Clock | None
"""What ``timestamp=`` takes."""

Part: TypeAlias = str | Callable[[Any], Any]
"""A field of the value by name, or a function of the value."""


def not_whole(timestamp: object) -> DefinitionError:
    """Build the error for a record's time that is no number of milliseconds."""
    return DefinitionError(f"timestamp {timestamp!r} is not a whole number", hint="give milliseconds since 1970")


def timestamp_source(given: TimestampLike) -> Function | Clock:
    """Check what a user has said about event time."""
    if isinstance(given, str):
        if given not in get_args(Clock):
            raise DefinitionError(
                f"timestamp={given!r} is not known", hint='use "record", "append", "wall_clock" or a function'
            )
        return given
    return "record" if given is None else by_arity("timestamp", given)


def checked_on_invalid(given: str) -> OnInvalid:
    """Check what a user has said about records without a time."""
    for known in get_args(OnInvalid):
        if given == known:
            return known  # type: ignore[no-any-return]
    raise DefinitionError(f"on_invalid={given!r} is not known", hint='use "fail", "skip" or "partition_time"')


def device_clock(*, occurred: Part, sent: Part, received: Part | None = None) -> Callable[[Any, Any, Context], int]:
    """Correct the clock of a device by what it thought the time was when it sent the record.

    A device says when something ``occurred`` and when it ``sent`` the record, both by its own clock; the record was
    ``received`` by a clock that is right, by default the record's timestamp. What passed between the two on the device
    is trusted, the device's idea of the time is not: event time is received - (sent - occurred).

    >>> app = App("doc")
    >>> app.stream("sensor", timestamp=device_clock(occurred="at", sent="sent")).to("out")
    >>> from millstream.testing import TestDriver
    >>> with TestDriver(app) as driver:
    ...     driver.topic("sensor").pipe({"at": 100, "sent": 400}, timestamp=60_000)
    ...     driver.topic("out").read()[0].timestamp
    59700
    """
    occurred_at, sent_at = _reading(occurred), _reading(sent)
    received_at = None if received is None else _reading(received)

    def corrected(_key: Any, value: Any, context: Context) -> int:
        arrived = context.timestamp if received_at is None else milliseconds_of(received_at(value))
        return arrived - (milliseconds_of(sent_at(value)) - milliseconds_of(occurred_at(value)))

    return corrected


def _reading(part: Part) -> Callable[[Any], Any]:
    if not isinstance(part, str):
        return part
    return lambda value: value[part] if isinstance(value, dict) else getattr(value, part)


def milliseconds_of(moment: Any) -> int:
    """Return a moment in milliseconds since 1970: a number as it is, a datetime by its instant; none is -1."""
    if isinstance(moment, int):
        return moment
    if moment is None or moment != moment:  # the second is true for a number that is not one
        return -1
    if isinstance(moment, float):
        return int(moment)
    if isinstance(moment, datetime):
        return round(moment.timestamp() * 1000)
    raise TypeError(f"{moment!r:.60} is no time: a timestamp is a datetime or a number of milliseconds since 1970")
