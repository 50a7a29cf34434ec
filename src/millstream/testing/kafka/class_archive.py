"""An archive of the classes that a broker loads when it starts, which halves the processor time of later starts.

Java calls it class data sharing. It is recorded once by a broker that ends in an orderly way, and kept beside the jars.
Java checks that an archive belongs to its version and to the same jars, and otherwise ignores it.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from millstream.foundation.file_lock import FileLock
from millstream.testing.kafka.artifacts import KAFKA_VERSION, NoKafkaError, cache_dir, java_program, kafka_jars

_NO_MESSAGES = ("-Xlog:disable", "-Xlog:all=error:stderr")
_SHORT_RUN = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""Options that save more time than they cost in runs of less than some minutes."""


def java_command(
    main: str, *arguments: str, options: tuple[str, ...] = (), classes: Path | None = None, long_running: bool = False
) -> list[str]:
    """Return the command that runs a class of the jars, or of a directory with ``classes``."""
    quick = () if long_running else (*_SHORT_RUN, *_archive_options())
    path = f"{kafka_jars()}/*" if classes is None else f"{kafka_jars()}/*{os.pathsep}{classes}"
    return [java_program(), *quick, *options, "-cp", path, main, *arguments]


def run_java(main: str, *arguments: str) -> str:
    """Run a class of the jars until it ends and return its output."""
    result = subprocess.run(java_command(main, *arguments), capture_output=True, text=True, check=False)
    if result.returncode:
        raise NoKafkaError(f"{main} failed: {(result.stderr or result.stdout).strip()[-2000:]}")
    return result.stdout


def record_archive(run: Callable[[str], None]) -> None:
    """Record the archive if there is none: ``run`` starts and ends a broker with an option that writes it.

    While a process does so, others start without an archive.
    """
    archive = _archive()
    if archive.exists():
        return
    lock = FileLock(archive.with_suffix(".lock"))
    if not lock.acquire():
        return
    try:
        with tempfile.TemporaryDirectory(dir=archive.parent) as scratch:
            recorded = Path(scratch) / "kafka.jsa"
            run(f"-XX:ArchiveClassesAtExit={recorded}")
            if not recorded.exists():  # this Java cannot do it; it is not tried again, and ignores an empty file
                recorded.touch()
            recorded.replace(archive)
    finally:
        lock.release()


def _archive_options() -> tuple[str, ...]:
    archive = _archive()
    return (*_NO_MESSAGES, f"-XX:SharedArchiveFile={archive}") if archive.exists() else ()


def _archive() -> Path:
    java = Path(java_program()).resolve()
    status = java.stat()
    identity = f"{kafka_jars()} {java} {status.st_mtime_ns} {status.st_size}"
    return cache_dir() / f"kafka-{KAFKA_VERSION}-{hashlib.sha256(identity.encode()).hexdigest()[:16]}.jsa"
