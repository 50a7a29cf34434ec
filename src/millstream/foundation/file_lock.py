"""Lock files."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

from millstream.foundation.storage import make_private_directory, translate_storage_errors


class FileLock:
    """An advisory lock that ends with its process, so that a crash never leaves it locked."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: int | None = None

    def acquire(self, timeout: float = 0.0) -> bool:
        """Acquire the lock unless it is held; the file then contains this process's id.

        A ``timeout`` (seconds) bridges the short shared lock of a process that calls ``is_held``.
        """
        with translate_storage_errors(self.path):
            make_private_directory(self.path.parent)
            file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            deadline = time.monotonic() + timeout
            while not _try_lock(file, fcntl.LOCK_EX):
                if time.monotonic() >= deadline:
                    os.close(file)
                    return False
                time.sleep(timeout / 10)
            self._file = file
            os.ftruncate(file, 0)
            os.pwrite(file, b"%d" % os.getpid(), 0)
            return True

    def is_held(self) -> bool:
        """Whether the lock is held now; checks use a shared lock, so they do not block each other."""
        try:
            file = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            return not _try_lock(file, fcntl.LOCK_SH)
        finally:
            os.close(file)

    def holder(self) -> int | None:
        """Return the process id written by the last holder."""
        try:
            return int(self.path.read_text() or 0) or None
        except (OSError, ValueError):
            return None

    def release(self) -> None:
        """Release the lock."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


def _try_lock(file: int, kind: int) -> bool:
    """Try to lock an open file; False if another process holds the lock."""
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
