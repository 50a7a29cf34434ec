"""Windows as data: which records of a key belong together, and the grace for late records.

Times are stored in milliseconds; users write ``tumbling("1 min", grace="30 s")``.
"""

from __future__ import annotations

from math import gcd
from typing import Any, TypeAlias

import msgspec

from millstream.durations import Duration, milliseconds
from millstream.errors import DefinitionError
from millstream.records import Windowed

FOREVER = (1 << 63) - 1
"""The end of an unlimited window."""


class TimeWindows(msgspec.Struct, frozen=True, tag="time"):
    """Windows ``[start, start + size)`` that start at multiples of ``advance``, from 0 on."""

    size: int
    advance: int
    grace: int

    @property
    def retention(self) -> int:
        return self.size + self.grace

    def starts(self, timestamp: int) -> range:
        """Return the starts of the windows that a timestamp belongs to, ascending."""
        first = max(0, timestamp - self.size + self.advance) // self.advance * self.advance
        return range(first, timestamp + 1, self.advance)

    def interval_number(self, timestamp: Any) -> Any:
        """Return a number that is equal for timestamps in the same windows; also works on an array."""
        step = gcd(self.size, self.advance)  # windows start and end only at multiples of it
        return timestamp // min(step, FOREVER)

    def interval(self, timestamp: int) -> tuple[int, int]:
        """Return the interval, without its end, of timestamps that are in the same windows as this one."""
        step = gcd(self.size, self.advance)
        return timestamp // step * step, (timestamp // step + 1) * step

    def window_key(self, key: Any, position: tuple[int, ...]) -> Windowed:
        """Return the key of the window that is stored at a position."""
        return Windowed(key, position[0], position[0] + self.size)

    def position_of(self, window: Windowed) -> tuple[int, ...]:
        """Return the position at which a window is stored."""
        return (window.start,)


class UnlimitedWindows(msgspec.Struct, frozen=True, tag="unlimited"):
    """One window from ``start`` on that never ends."""

    start: int
    grace: int = 0
    size: int = FOREVER

    @property
    def retention(self) -> int:
        return FOREVER

    def starts(self, timestamp: int) -> range:
        return range(self.start, self.start + 1 if timestamp >= self.start else self.start)

    def interval_number(self, timestamp: Any) -> Any:
        return timestamp >= self.start

    def interval(self, timestamp: int) -> tuple[int, int]:
        return (self.start, FOREVER) if timestamp >= self.start else (0, self.start)

    def window_key(self, key: Any, position: tuple[int, ...]) -> Windowed:
        return Windowed(key, position[0], FOREVER)

    def position_of(self, window: Windowed) -> tuple[int, ...]:
        return (window.start,)


class SlidingWindows(msgspec.Struct, frozen=True, tag="sliding"):
    """Windows ``[start, start + difference]``, both ends included; a new window wherever the set of records changes."""

    difference: int
    grace: int

    @property
    def retention(self) -> int:
        return 2 * self.difference + self.grace

    def window_key(self, key: Any, position: tuple[int, ...]) -> Windowed:
        return Windowed(key, position[0], position[0] + self.difference)

    def position_of(self, window: Windowed) -> tuple[int, ...]:
        return (window.start,)


class SessionWindows(msgspec.Struct, frozen=True, tag="session"):
    """Windows from the first to the last of records that are at most ``gap`` apart."""

    gap: int
    grace: int

    @property
    def retention(self) -> int:
        return self.gap + self.grace

    def window_key(self, key: Any, position: tuple[int, ...]) -> Windowed:
        return Windowed(key, position[1], position[0])

    def position_of(self, window: Windowed) -> tuple[int, ...]:
        return (window.end, window.start)


Windows: TypeAlias = TimeWindows | UnlimitedWindows | SlidingWindows | SessionWindows


def tumbling(size: Duration, *, grace: Duration = "0 ms") -> TimeWindows:
    """Windows of ``size`` without gaps or overlaps; a record belongs to one.

    >>> list(tumbling("10 s").starts(25_000))
    [20000]
    """
    length = _positive("size", size)
    return TimeWindows(length, length, _not_negative("grace", grace))


def hopping(size: Duration, *, every: Duration, grace: Duration = "0 ms") -> TimeWindows:
    """Windows of ``size`` that start every ``every`` and overlap; a record belongs to several.

    >>> list(hopping("10 s", every="5 s").starts(12_000))
    [5000, 10000]
    """
    length, advance = _positive("size", size), _positive("every", every)
    if advance > length:
        raise DefinitionError(
            f"hopping windows of {size!r} every {every!r} have gaps", hint="every must not exceed size"
        )
    return TimeWindows(length, advance, _not_negative("grace", grace))


def sliding(difference: Duration, *, grace: Duration = "0 ms") -> SlidingWindows:
    """Windows of records that are at most ``difference`` apart, one for each distinct set of records."""
    return SlidingWindows(_not_negative("difference", difference), _not_negative("grace", grace))


def session(*, gap: Duration, grace: Duration = "0 ms") -> SessionWindows:
    """Windows of activity: a session ends when no record arrives for more than ``gap``."""
    return SessionWindows(_not_negative("gap", gap), _not_negative("grace", grace))


def unlimited(*, start: int = 0) -> UnlimitedWindows:
    """One window that starts at ``start`` (milliseconds since 1970) and never ends."""
    if start < 0:
        raise DefinitionError(f"an unlimited window cannot start at {start}", hint="start at 0 or later")
    return UnlimitedWindows(start)


class JoinWindow(msgspec.Struct, frozen=True, omit_defaults=True):
    """Which records of two streams are joined: ``left - before <= right <= left + after``, in milliseconds.

    With ``eager``, left and outer joins forward a record without partner at once.
    """

    before: int
    after: int
    grace: int
    eager: bool = False

    @property
    def retention(self) -> int:
        """How many milliseconds records wait for partners."""
        return self.before + self.after + self.grace


def join_window(
    around: Duration | None = None,
    *,
    before: Duration | None = None,
    after: Duration | None = None,
    grace: Duration = "0 ms",
    eager: bool = False,
) -> JoinWindow:
    """Join two records if the right one is at most ``before`` earlier or ``after`` later than the left one.

    ``around`` sets both. A negative ``timedelta`` for one of them shifts the window away from the left record.
    ``grace`` is how much longer a left or outer join waits before it treats a record as unmatched. With ``eager`` it
    does not wait: a record without partner so far is passed on alone at once, and again with each partner that arrives.

    >>> join_window("1 s")
    JoinWindow(before=1000, after=1000, grace=0, eager=False)
    """
    ends = [around if end is None else end for end in (before, after)]
    if around is None and before is None and after is None:
        raise DefinitionError("a join window needs a width", hint='for example join_window("10 s")')
    earlier, later = ("0 ms" if end is None else end for end in ends)
    window = JoinWindow(milliseconds(earlier), milliseconds(later), milliseconds(grace), eager)
    if window.before + window.after < 0 or window.grace < 0:
        raise DefinitionError(
            f"a join window from {-window.before} to {window.after} ms with {window.grace} ms of grace is not valid",
            hint="neither grace nor the sum of before and after may be negative",
        )
    return window


def _positive(name: str, duration: Duration) -> int:
    length = milliseconds(duration)
    if length < 1:
        raise DefinitionError(f"{name} {duration!r} of a window is too short", hint="use 1 ms or more")
    return length


def _not_negative(name: str, duration: Duration) -> int:
    length = milliseconds(duration)
    if length < 0:
        raise DefinitionError(f"{name} {duration!r} of a window is negative", hint="use 0 ms or more")
    return length


def check_windows(windows: object) -> None:
    """Reject what is not a window, such as a duration."""
    if not isinstance(windows, TimeWindows | UnlimitedWindows | SlidingWindows | SessionWindows):
        raise DefinitionError(
            f"windowed_by() expects a window, not {windows!r}", hint='pass for example tumbling("5 min")'
        )


def check_join_window(within: object) -> None:
    """Reject what is not a window of a join, such as a duration."""
    if not isinstance(within, JoinWindow):
        raise DefinitionError(f"within= expects a window, not {within!r}", hint='pass within=join_window("10 s")')
