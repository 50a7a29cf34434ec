"""Room on the stack for long chains of steps: each step calls the next one."""

from __future__ import annotations

import sys

_FRAMES_PER_STEP = 24
_OTHER_FRAMES = 1_000


def allow_steps(steps: int) -> None:
    """Raise Python's recursion limit, if it is too low for a chain of that many steps."""
    needed = _OTHER_FRAMES + _FRAMES_PER_STEP * steps
    if sys.getrecursionlimit() < needed:
        sys.setrecursionlimit(needed)
