"""Where in the user's code an exception comes from."""

from __future__ import annotations

import functools
import sysconfig
import traceback
from pathlib import Path

_OWN = str(Path(__file__).parent.parent)


def line_of(error: BaseException) -> str | None:
    """Return ``file:line in function`` of the innermost of the user's own lines, or None if none took part."""
    frames = traceback.extract_tb(error.__traceback__)
    users = [frame for frame in frames if not frame.filename.startswith((_OWN, "<"))]
    own = [frame for frame in users if not frame.filename.startswith(_installed())] or users[-1:]
    return f"{own[-1].filename}:{own[-1].lineno} in {own[-1].name}" if own else None


@functools.cache
def _installed() -> tuple[str, ...]:
    """Return where Python and packages live: an error deep in a package is shown at the line that called it."""
    return tuple(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib"))
