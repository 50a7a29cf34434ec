"""The lease: it decides which process plans the batches of an app, the driver or its resident task.

The lease is a file lock, so it is released when its process ends. A process that acquires it reads the journal again.
"""

from __future__ import annotations

import time
from pathlib import Path

from millstream.errors import AlreadyRunningError
from millstream.foundation.file_lock import FileLock

_PATIENCE_SECONDS = 30.0
_POLL_SECONDS = 0.02


class Lease:
    """The lease of one app, as seen by one process."""

    def __init__(self, app: str, path: Path) -> None:
        self._app = app
        self.path = path
        self._lock = FileLock(path)

    def acquire(self, patience: float = _PATIENCE_SECONDS) -> None:
        """Acquire the lease; waits for a resident task whose driver is gone to finish its batch."""
        deadline = time.monotonic() + patience
        while not self._lock.acquire():
            if time.monotonic() >= deadline:
                raise AlreadyRunningError(
                    f"a task of app {self._app!r} is still running a batch (process {self._lock.holder()})",
                    hint="wait until it ends, or end that process; its batch is then run again",
                    process=self._lock.holder(),
                )
            time.sleep(_POLL_SECONDS)

    def release(self) -> None:
        """Let another process acquire the lease."""
        self._lock.release()
