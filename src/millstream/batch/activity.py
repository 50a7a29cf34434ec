"""What a run is doing right now, for its watchdog and for other processes.

A run that does nothing must be able to say what it waits for; nobody should have to guess whether it hangs.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import msgspec

Effort = Literal["idle", "waiting", "working"]
"""idle: there is nothing to be done; waiting: something stands in the way; working: a batch runs."""


class Doing(msgspec.Struct, frozen=True, kw_only=True):
    """Something that a run does, since a wall time in milliseconds."""

    what: str
    since: int
    effort: Effort = "waiting"

    @property
    def seconds(self) -> float:
        return max(0.0, time.time() - self.since / 1000)


class LifeSign(msgspec.Struct, frozen=True, kw_only=True):
    """What a process was doing when it last showed that it lives, at a wall time in milliseconds."""

    process: int
    at: int
    doing: Doing


class Activity:
    """The present doing of a run; set by the thread that does it, read by others."""

    def __init__(self) -> None:
        self.now = Doing(what="starts", since=_milliseconds(), effort="idle")

    def turn_to(self, what: str, effort: Effort = "waiting") -> None:
        """Say what is done from now on."""
        self.now = Doing(what=what, since=_milliseconds(), effort=effort)

    def go_on(self) -> None:
        """Say that what is done has come on, so that its time is counted anew."""
        self.now = msgspec.structs.replace(self.now, since=_milliseconds())


class LifeSigns:
    """A small file in which a run shows that it lives and what it does."""

    def __init__(self, path: Path, clock: Callable[[], float] = time.time) -> None:
        self._path = path
        self._clock = clock

    def show(self, doing: Doing) -> None:
        """Replace what was shown before; a disk without space must not end a run for this."""
        sign = LifeSign(process=os.getpid(), at=round(self._clock() * 1000), doing=doing)
        new = self._path.with_suffix(".new")
        with contextlib.suppress(OSError):
            new.write_bytes(msgspec.json.encode(sign))
            new.replace(self._path)

    def last(self) -> LifeSign | None:
        """Return what was shown last, by whichever process."""
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=LifeSign)
        except (OSError, msgspec.DecodeError):
            return None


def _milliseconds() -> int:
    return time.time_ns() // 1_000_000
