"""The error for damaged files."""

from __future__ import annotations

from pathlib import Path

from millstream.errors import DamagedError


def damaged(path: Path, reason: str) -> DamagedError:
    """Return the error for a damaged file or directory; the hint names the ways to repair it."""
    return DamagedError(
        f"{str(path)!r} is damaged: {reason}",
        hint="list all damage: millstream doctor DATA_DIR; then restore a savepoint or a backup, or reset the app",
        path=str(path),
    )
