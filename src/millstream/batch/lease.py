"""The lease: who may plan the batches of an app and note them as done, the driver or its resident task.

It is a file lock, so that it ends with the process that holds it. Whoever takes it reads the journal anew.
"""

from __future__ import annotations

import time
from pathlib import Path

from millstream.errors import AlreadyRunningError
from millstream.foundation.storage import FileLock

_PATIENCE_SECONDS = 30.0
_LOOK_SECONDS = 0.02


class Lease:
    """The lease of one app, as one process sees it."""

    def __init__(self, app: str, path: Path) -> None:
        self._app = app
        self.path = path
        self._lock = FileLock(path)

    def take(self, patience: float = _PATIENCE_SECONDS) -> None:
        """Take the lease; a holder whose driver has gone gives it back after the batch at hand, so wait for that."""
        deadline = time.monotonic() + patience
        while not self._lock.acquire():
            if time.monotonic() >= deadline:
                raise AlreadyRunningError(
                    f"a task of app {self._app!r} still runs a batch (process {self._lock.holder()})",
                    hint="wait for its end, or end that process; its batch is then run again",
                    process=self._lock.holder(),
                )
            time.sleep(_LOOK_SECONDS)

    def give_back(self) -> None:
        """Let another process take it."""
        self._lock.release()
