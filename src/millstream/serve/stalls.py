"""Ends a server that a request has stalled; ``WebProcess`` replaces it, and its clients connect again.

An expression of SQL can run for hours. A thread cannot be ended from outside, and while a regular expression
backtracks, no other thread of its process runs. So the time is also measured by a timer that needs no interpreter.
"""

from __future__ import annotations

import faulthandler
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_CHECKS = 10
"""How many times per limit the watch looks."""


class BoundedWork:
    """What must not run for longer than the limit of the server: the evaluation of what users have written."""

    def __init__(self) -> None:
        self._started: dict[object, float] = {}

    @contextmanager
    def running(self) -> Iterator[None]:
        """Count the time of a block."""
        key = object()
        self._started[key] = time.monotonic()
        try:
            yield
        finally:
            del self._started[key]

    @property
    def longest_seconds(self) -> float:
        """How long the oldest block has been running."""
        return max((time.monotonic() - started for started in list(self._started.values())), default=0.0)


def end_when_stalled(work: BoundedWork, seconds: float) -> None:
    """End this process with exit code 1 as soon as work takes longer, or no thread of it could run for that long."""
    threading.Thread(target=_watch, args=(work, seconds), name="millstream-stalls", daemon=True).start()


def _watch(work: BoundedWork, seconds: float) -> None:
    report: Any = Path(os.devnull).open("w")  # noqa: SIM115  # as long as the process runs
    while True:
        faulthandler.dump_traceback_later(seconds, exit=True, file=report)
        if work.longest_seconds > seconds:
            os._exit(1)
        time.sleep(seconds / _CHECKS)
