"""An archive of the classes that Spark loads when it starts, which saves about two seconds of every later start.

Java calls it class data sharing. The first JVM writes the archive when it exits; later ones map it into memory
instead of finding, parsing and verifying thousands of classes. Java checks that an archive belongs to its version and
to the same jar files, and otherwise ignores it.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from pathlib import Path

import pyspark

from millstream.errors import StorageError
from millstream.foundation.storage import make_private_directory
from millstream.spark.java import find_java

_KEPT = 10  # an archive is 70 MB, and each installed Spark and Java has its own
_NO_MESSAGES = ("-Xlog:disable", "-Xlog:all=error:stderr")


def archive_options() -> tuple[str, ...]:
    """Return the options for a JVM that uses the archive, or writes it if there is none."""
    java = find_java()
    if java is None:
        return ()
    try:
        directory = _cache_directory()
        make_private_directory(directory)
        archive = directory / f"spark-{_key(java)}.jsa"
        if archive.exists():
            os.utime(archive)  # the archives that were used last are kept
            return (*_NO_MESSAGES, f'"-XX:SharedArchiveFile={archive}"')
        _remove_oldest(directory)
    except (OSError, RuntimeError, StorageError):
        return ()
    return (*_NO_MESSAGES, f'"-XX:ArchiveClassesAtExit={archive}"')


def _cache_directory() -> Path:
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "millstream"


def _key(java: Path) -> str:
    status = java.stat()
    identity = f"{pyspark.__version__} {pyspark.__file__} {java} {status.st_mtime_ns} {status.st_size}"
    return hashlib.sha256(identity.encode()).hexdigest()[:16]


def _remove_oldest(directory: Path) -> None:
    archives = sorted(directory.glob("spark-*.jsa"), key=lambda path: path.stat().st_mtime, reverse=True)
    for archive in archives[_KEPT - 1 :]:
        with contextlib.suppress(FileNotFoundError):
            archive.unlink()
