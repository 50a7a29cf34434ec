"""A wall clock that never stands still and never goes back, for targets that order versions by it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec

from millstream.batch.planner import wall_clock
from millstream.foundation.small_file import read_file, replace_file

_RESERVED_MS = 10_000


class GrowingClock:
    """Returns the time in milliseconds, each time a larger one.

    This also holds after a restart or a reset, and if the clock of the host is set back: a file contains a time that
    no call has reached yet. It is outside the directory of the app, and is written every ten seconds.
    """

    def __init__(self, path: Path, clock: Callable[[], int] = wall_clock) -> None:
        self._path = path
        self._clock = clock
        self._reserved = self._last = read_file(path, int) or 0
        self.on_reserve: Callable[[int], None] = lambda _time: None
        """Called with each new reservation, so that it can be stored elsewhere too."""

    def raise_to(self, reserved: int) -> None:
        """Go on after a time that another host has reserved."""
        self._reserved = self._last = max(self._last, self._reserved, reserved)

    def __call__(self) -> int:
        self._last = max(self._clock(), self._last + 1)
        if self._last > self._reserved:
            self._reserved = self._last + _RESERVED_MS
            replace_file(self._path, msgspec.json.encode(self._reserved), sync=True)
            self.on_reserve(self._reserved)
        return self._last
