"""The batch lock of an app: a batch holds it shared, a process that needs unchanging state holds it exclusively.

Both sides use file locks, which the operating system releases when a process ends.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from millstream.errors import StateError
from millstream.foundation.storage import make_private_directory, translate_storage_errors

_POLL_SECONDS = 0.01
_PATIENCE_SECONDS = 60.0


class BatchLock:
    """The batch lock of the app in ``directory``.

    There are two files: an exclusive holder locks ``gate.wish`` first, so that no further batch starts while it waits
    for the current one to release ``gate``.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._files: tuple[int, int] | None = None
        self._process = 0

    @contextmanager
    def shared(self) -> Iterator[None]:
        """Hold the lock for a batch; waits while another process holds or wants it exclusively."""
        wish, gate = self._opened()
        while not _try_lock(wish, fcntl.LOCK_SH):
            time.sleep(_POLL_SECONDS)
        fcntl.flock(wish, fcntl.LOCK_UN)
        while not _try_lock(gate, fcntl.LOCK_SH):
            time.sleep(_POLL_SECONDS)
        try:
            yield
        finally:
            fcntl.flock(gate, fcntl.LOCK_UN)

    @contextmanager
    def exclusive(self, patience: float = _PATIENCE_SECONDS) -> Iterator[None]:
        """Hold the lock alone: no batch runs inside the block."""
        wish, gate = self._opened()
        deadline = time.monotonic() + patience
        self._wait(lambda: _try_lock(wish, fcntl.LOCK_EX), deadline)
        try:
            self._wait(lambda: _try_lock(gate, fcntl.LOCK_EX), deadline)
            try:
                yield
            finally:
                fcntl.flock(gate, fcntl.LOCK_UN)
        finally:
            fcntl.flock(wish, fcntl.LOCK_UN)

    def _wait(self, try_lock: Callable[[], bool], deadline: float) -> None:
        while not try_lock():
            if time.monotonic() > deadline:
                raise StateError(
                    f"a batch of {self._directory.name!r} does not end",
                    hint="try again, or see what it is doing: millstream status",
                )
            time.sleep(_POLL_SECONDS)

    def _opened(self) -> tuple[int, int]:
        if self._files is None or self._process != os.getpid():
            with translate_storage_errors(self._directory):
                make_private_directory(self._directory)
                flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
                wish, gate = (os.open(self._directory / name, flags, 0o600) for name in ("gate.wish", "gate"))
            self._files, self._process = (wish, gate), os.getpid()
        return self._files

    def __del__(self) -> None:
        if self._files is not None and self._process == os.getpid():
            for file in self._files:
                os.close(file)


def _try_lock(file: int, kind: int) -> bool:
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
