"""Find the line of user code that raised an exception."""

from __future__ import annotations

import functools
import sysconfig
import traceback
from pathlib import Path

_PACKAGE = str(Path(__file__).parent.parent)


def line_of(error: BaseException) -> str | None:
    """Return ``file:line in function`` of the innermost line of user code, None if there is none."""
    frames = traceback.extract_tb(error.__traceback__)
    outside = [frame for frame in frames if not frame.filename.startswith((_PACKAGE, "<"))]
    user_frames = [frame for frame in outside if not frame.filename.startswith(_installed_paths())] or outside[-1:]
    if not user_frames:
        return None
    frame = user_frames[-1]
    return f"{frame.filename}:{frame.lineno} in {frame.name}"


@functools.cache
def _installed_paths() -> tuple[str, ...]:
    """Return the paths of Python and its packages: an error inside a package is reported at the line that called it."""
    return tuple(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib"))
