"""The Java that Spark's scripts start: found and checked before they print messages of their own."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from millstream.errors import EngineError

_MIN_VERSION = 17
_HINT = f"install Java {_MIN_VERSION} or newer, and set JAVA_HOME to its directory or put it on the PATH"


def find_java() -> Path | None:
    """Return the Java that Spark's scripts start."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=str(Path(home, "bin")) if home else None)
    return None if java is None else Path(java).resolve()


def check_java() -> None:
    """Raise an error if there is no Java, or if it is too old for Spark."""
    java, home = find_java(), os.environ.get("JAVA_HOME")
    if java is None:
        location = f"in JAVA_HOME ({home!r})" if home else "on the PATH, and JAVA_HOME is not set"
        raise EngineError(f"Spark does not start: there is no Java {location}", hint=_HINT)
    version = _version(java)
    if version is not None and version < _MIN_VERSION:
        raise EngineError(f"Spark does not start: {str(java)!r} is Java {version}", hint=_HINT)


def _version(java: Path) -> int | None:
    """Return the major version from the file that each Java has, or None if it has none."""
    try:
        match = re.search(r'^JAVA_VERSION="(?:1\.)?(\d+)', (java.parents[1] / "release").read_text(), re.MULTILINE)
    except OSError:
        return None
    return None if match is None else int(match[1])
