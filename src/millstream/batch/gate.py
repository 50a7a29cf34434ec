"""The gate of an app: open for one batch after the other, closed for a moment by who wants to see state at rest.

Both sides hold file locks, which end with their process: whoever dies leaves the gate as it should be.
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

_NAP_SECONDS = 0.01
_PATIENCE_SECONDS = 60.0


class Gate:
    """The gate of the app whose directory is given."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._files: tuple[int, int] | None = None
        self._process = 0

    @contextmanager
    def passing(self) -> Iterator[None]:
        """Keep the gate open for a batch, after waiting for its turn if somebody has closed it."""
        wish, gate = self._opened()
        while not _is_locked(wish, fcntl.LOCK_SH):  # somebody wants it closed: do not go before them
            time.sleep(_NAP_SECONDS)
        fcntl.flock(wish, fcntl.LOCK_UN)
        while not _is_locked(gate, fcntl.LOCK_SH):
            time.sleep(_NAP_SECONDS)
        try:
            yield
        finally:
            fcntl.flock(gate, fcntl.LOCK_UN)

    @contextmanager
    def closed(self, patience: float = _PATIENCE_SECONDS) -> Iterator[None]:
        """Close the gate: no batch runs inside of the block."""
        wish, gate = self._opened()
        until = time.monotonic() + patience
        self._take(lambda: _is_locked(wish, fcntl.LOCK_EX), until)
        try:
            self._take(lambda: _is_locked(gate, fcntl.LOCK_EX), until)
            try:
                yield
            finally:
                fcntl.flock(gate, fcntl.LOCK_UN)
        finally:
            fcntl.flock(wish, fcntl.LOCK_UN)

    def _take(self, attempt: Callable[[], bool], until: float) -> None:
        while not attempt():
            if time.monotonic() > until:
                raise StateError(
                    f"a batch of {self._directory.name!r} does not come to its end",
                    hint="try again, or see what it is doing: millstream status",
                )
            time.sleep(_NAP_SECONDS)

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


def _is_locked(file: int, kind: int) -> bool:
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
