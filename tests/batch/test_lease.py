import threading
from pathlib import Path

import pytest

from millstream.batch.lease import Lease
from millstream.errors import AlreadyRunningError


def test_one_holder_at_a_time(tmp_path: Path) -> None:
    first, second = Lease("app", tmp_path / "lease"), Lease("app", tmp_path / "lease")
    first.take()
    with pytest.raises(AlreadyRunningError, match="a task of app 'app' still runs a batch"):
        second.take(patience=0)
    first.give_back()
    second.take(patience=0)


def test_a_lease_that_is_given_back_late_is_waited_for(tmp_path: Path) -> None:
    first, second = Lease("app", tmp_path / "lease"), Lease("app", tmp_path / "lease")
    first.take()
    threading.Timer(0.1, first.give_back).start()
    second.take(patience=30)
    with pytest.raises(AlreadyRunningError):
        first.take(patience=0)
