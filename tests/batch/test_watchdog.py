from __future__ import annotations

import threading
from pathlib import Path

import pytest

from millstream.batch import watchdog as watchdog_module
from millstream.batch.activity import Activity, ActivityState, HeartbeatFile
from millstream.batch.watchdog import Watchdog


@pytest.fixture(autouse=True)
def _fast_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watchdog_module, "_CHECK_SECONDS", 0.01)
    monkeypatch.setattr(watchdog_module, "_SLOW_SECONDS", 0.05)


def test_a_slow_activity_is_logged_with_details(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    asked = threading.Event()

    def detail() -> str:
        asked.set()
        return "Spark is running 1 of 2 tasks"

    activity = Activity()
    activity.set("running batch 7", "working")
    watchdog = Watchdog("test", activity, HeartbeatFile(tmp_path / "activity.json"), detail=detail)
    assert asked.wait(30)
    watchdog.close()
    line = caplog.records[0].getMessage()
    assert line == 'slow app=test doing="running batch 7" seconds=0 detail="Spark is running 1 of 2 tasks"'


def test_waiting_for_records_is_not_reported_and_heartbeats_are_written(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    written = threading.Semaphore(0)

    class CountedHeartbeats(HeartbeatFile):
        def write(self, doing: ActivityState) -> None:
            super().write(doing)
            written.release()

    heartbeats = CountedHeartbeats(tmp_path / "activity.json")
    activity = Activity()
    activity.set("waiting for records from lines", "idle")
    watchdog = Watchdog("test", activity, heartbeats, stuck_after=0.01)
    for _ in range(10):
        assert written.acquire(timeout=30)
    watchdog.close()
    last = heartbeats.read()
    assert last is not None
    assert (last.doing.what, last.doing.effort, caplog.records) == ("waiting for records from lines", "idle", [])


def test_a_stuck_batch_is_cancelled_once(tmp_path: Path) -> None:
    cancelled: list[str] = []
    done = threading.Event()
    activity = Activity()
    activity.set("running batch 7", "working")

    def cancel() -> None:
        cancelled.append(activity.now.what)
        done.set()

    watchdog = Watchdog("test", activity, HeartbeatFile(tmp_path / "activity.json"), stuck_after=0.1, cancel=cancel)
    assert done.wait(30)
    activity.set("waiting for records", "idle")
    watchdog.close()
    assert cancelled == ["cancelling what it was doing (running batch 7)"]


def test_a_missing_or_damaged_heartbeat_is_none(tmp_path: Path) -> None:
    heartbeats = HeartbeatFile(tmp_path / "activity.json")
    assert heartbeats.read() is None
    (tmp_path / "activity.json").write_text("{")
    assert heartbeats.read() is None
    HeartbeatFile(tmp_path / "missing" / "activity.json").write(Activity().now)  # the error is ignored
