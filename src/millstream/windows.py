"""Windows as data: which records of a key belong together, and how long late ones are waited for.

Times are milliseconds inside; people write ``tumbling("1 min", grace="30 s")``.
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
    """Windows ``[start, start + size)`` whose starts are multiples of ``advance``, from 0 on."""

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

    def span(self, timestamp: Any) -> Any:
        """Return a number that all timestamps which belong to the same windows have in common, also of an array."""
        step = gcd(self.size, self.advance)  # windows begin and end at multiples of it only
        return timestamp // min(step, FOREVER)

    def alike(self, timestamp: int) -> tuple[int, int]:
        """Return from where until where, not included, all timestamps belong to the same windows."""
        step = gcd(self.size, self.advance)
        return timestamp // step * step, (timestamp // step + 1) * step

    def named(self, key: Any, at: tuple[int, ...]) -> Windowed:
        """Return the key of a stored window."""
        return Windowed(key, at[0], at[0] + self.size)

    def place(self, window: Windowed) -> tuple[int, ...]:
        """Return where a window is stored."""
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

    def span(self, timestamp: Any) -> Any:
        return timestamp >= self.start

    def alike(self, timestamp: int) -> tuple[int, int]:
        return (self.start, FOREVER) if timestamp >= self.start else (0, self.start)

    def named(self, key: Any, at: tuple[int, ...]) -> Windowed:
        return Windowed(key, at[0], FOREVER)

    def place(self, window: Windowed) -> tuple[int, ...]:
        return (window.start,)


class SlidingWindows(msgspec.Struct, frozen=True, tag="sliding"):
    """Windows ``[start, start + difference]``, both ends included, wherever the content changes."""

    difference: int
    grace: int

    @property
    def retention(self) -> int:
        return 2 * self.difference + self.grace

    def named(self, key: Any, at: tuple[int, ...]) -> Windowed:
        return Windowed(key, at[0], at[0] + self.difference)

    def place(self, window: Windowed) -> tuple[int, ...]:
        return (window.start,)


class SessionWindows(msgspec.Struct, frozen=True, tag="session"):
    """Windows from the first to the last of records that are not more than ``gap`` apart."""

    gap: int
    grace: int

    @property
    def retention(self) -> int:
        return self.gap + self.grace

    def named(self, key: Any, at: tuple[int, ...]) -> Windowed:
        return Windowed(key, at[1], at[0])

    def place(self, window: Windowed) -> tuple[int, ...]:
        return (window.end, window.start)


Windows: TypeAlias = TimeWindows | UnlimitedWindows | SlidingWindows | SessionWindows


def tumbling(size: Duration, *, grace: Duration = "0 ms") -> TimeWindows:
    """Windows of ``size``, one after the other; a record belongs to one.

    >>> list(tumbling("10 s").starts(25_000))
    [20000]
    """
    length = _positive("size", size)
    return TimeWindows(length, length, _not_negative("grace", grace))


def hopping(size: Duration, *, every: Duration, grace: Duration = "0 ms") -> TimeWindows:
    """Windows of ``size`` that begin ``every`` so often and overlap; a record belongs to several.

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
    """Windows of all records that are not more than ``difference`` apart, one for each set of them."""
    return SlidingWindows(_not_negative("difference", difference), _not_negative("grace", grace))


def session(*, gap: Duration, grace: Duration = "0 ms") -> SessionWindows:
    """Windows of activity: a session ends when nothing comes for more than ``gap``."""
    return SessionWindows(_not_negative("gap", gap), _not_negative("grace", grace))


def unlimited(*, start: int = 0) -> UnlimitedWindows:
    """One window that begins at ``start`` (milliseconds since 1970) and never ends."""
    if start < 0:
        raise DefinitionError(f"an unlimited window cannot start at {start}", hint="start at 0 or later")
    return UnlimitedWindows(start)


class JoinWindow(msgspec.Struct, frozen=True):
    """Which records of two streams meet: ``left - before <= right <= left + after``, in milliseconds."""

    before: int
    after: int
    grace: int

    @property
    def retention(self) -> int:
        """How long records wait for partners."""
        return self.before + self.after + self.grace


def join_window(
    around: Duration | None = None,
    *,
    before: Duration | None = None,
    after: Duration | None = None,
    grace: Duration = "0 ms",
) -> JoinWindow:
    """Two records meet if the right one comes at most ``before`` earlier and ``after`` later than the left one.

    ``around`` stands for both. A negative ``timedelta`` for one of them shifts the window away from the left record.
    ``grace`` says how much longer than that a left or outer join waits before it takes a record for unmatched.

    >>> join_window("1 s")
    JoinWindow(before=1000, after=1000, grace=0)
    """
    ends = [around if end is None else end for end in (before, after)]
    if around is None and before is None and after is None:
        raise DefinitionError("a join window needs a width", hint='for example join_window("10 s")')
    earlier, later = ("0 ms" if end is None else end for end in ends)
    window = JoinWindow(milliseconds(earlier), milliseconds(later), milliseconds(grace))
    if window.before + window.after < 0 or window.grace < 0:
        raise DefinitionError(
            f"a join window from {-window.before} to {window.after} ms with {window.grace} ms of grace is impossible",
            hint="before and after together must not be negative, nor must grace",
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
