"""Waiting for what another thread or process does."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

SECONDS = 200.0


def wait_until(condition: Callable[[], object]) -> None:
    """Return when a condition is true; between two looks the processor is left to what is waited for."""
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"not within {SECONDS} s"
        threading.Event().wait(0.02)
