"""Exchange two directories in one step, so that a kill leaves one or the other in position, never none."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2


def try_exchange(first: Path, second: Path) -> bool:
    """Exchange two paths of one file system atomically; False if the system or the file system cannot do it."""
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError):  # not Linux, or an old C library
        return False
    return bool(rename(_AT_FDCWD, os.fsencode(first), _AT_FDCWD, os.fsencode(second), _RENAME_EXCHANGE) == 0)
