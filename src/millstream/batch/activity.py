"""The current activity of a run, for its watchdog and for other processes.

A run that makes no progress can always report what it is waiting for.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import msgspec

from millstream.foundation.typed_decoding import decode_json

Effort = Literal["idle", "waiting", "retrying", "working"]
"""idle: there is nothing to do; waiting: something prevents progress; retrying: an error does; working: in a batch."""


_LONG_SECONDS = 2.0


class ActivityState(msgspec.Struct, frozen=True, kw_only=True):
    """What a run is doing, and since which wall-clock time in milliseconds."""

    what: str
    since: int
    effort: Effort = "waiting"

    @property
    def seconds(self) -> float:
        return max(0.0, time.time() - self.since / 1000)


class Heartbeat(msgspec.Struct, frozen=True, kw_only=True):
    """The activity of a process at the time of its last heartbeat, a wall-clock time in milliseconds."""

    process: int
    at: int
    doing: ActivityState
    guarantee: str = "exactly_once"
    """The guarantee that the app was started with."""


class Activity:
    """The current activity of a run; set by the thread that runs it, read by others."""

    def __init__(self) -> None:
        self.now = ActivityState(what="starting", since=_now(), effort="idle")

    def set(self, what: str, effort: Effort = "waiting") -> None:
        """Replace the current activity."""
        self.now = ActivityState(what=what, since=_now(), effort=effort)

    @property
    def obstacle(self) -> str:
        """What keeps the run from making progress: an error after which it retries, or a long wait; else empty."""
        now = self.now
        is_long_wait = now.effort == "waiting" and now.seconds >= _LONG_SECONDS
        return now.what if now.effort == "retrying" or is_long_wait else ""

    def restart_timer(self) -> None:
        """Count the time of the current activity from now, because it has made progress."""
        self.now = msgspec.structs.replace(self.now, since=_now())


class HeartbeatFile:
    """A small file to which a run writes its heartbeats."""

    def __init__(self, path: Path, clock: Callable[[], float] = time.time, *, guarantee: str = "exactly_once") -> None:
        self._path = path
        self._clock = clock
        self._guarantee = guarantee

    def write(self, doing: ActivityState) -> None:
        """Replace the heartbeat; an error such as a full disk is ignored, since it must not end the run."""
        at = round(self._clock() * 1000)
        heartbeat = Heartbeat(process=os.getpid(), at=at, doing=doing, guarantee=self._guarantee)
        new = self._path.with_suffix(".new")
        with contextlib.suppress(OSError):
            new.write_bytes(msgspec.json.encode(heartbeat))
            new.replace(self._path)

    def read(self) -> Heartbeat | None:
        """Return the last heartbeat of any process, or None."""
        try:
            return decode_json(self._path.read_bytes(), Heartbeat)
        except (OSError, msgspec.DecodeError):
            return None


def _now() -> int:
    return time.time_ns() // 1_000_000
