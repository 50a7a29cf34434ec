import threading
from pathlib import Path

import pytest

from millstream.batch.lease import Lease
from millstream.errors import AlreadyRunningError


def test_only_one_process_holds_the_lease(tmp_path: Path) -> None:
    first, second = Lease("app", tmp_path / "lease"), Lease("app", tmp_path / "lease")
    first.acquire()
    with pytest.raises(AlreadyRunningError, match="a task of app 'app' is still running a batch"):
        second.acquire(patience=0)
    first.release()
    second.acquire(patience=0)


def test_acquire_waits_until_the_lease_is_released(tmp_path: Path) -> None:
    first, second = Lease("app", tmp_path / "lease"), Lease("app", tmp_path / "lease")
    first.acquire()
    threading.Timer(0.1, first.release).start()
    second.acquire(patience=30)
    with pytest.raises(AlreadyRunningError):
        first.acquire(patience=0)
