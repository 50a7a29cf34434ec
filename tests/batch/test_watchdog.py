from __future__ import annotations

import threading
from pathlib import Path

import pytest

from millstream.batch import watchdog as watchdog_module
from millstream.batch.activity import Activity, LifeSigns
from millstream.batch.watchdog import Watchdog


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watchdog_module, "_LOOK_SECONDS", 0.01)
    monkeypatch.setattr(watchdog_module, "_LONG_SECONDS", 0.05)


def test_what_takes_long_is_named_with_what_it_waits_for(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    told = threading.Event()

    def detail() -> str:
        told.set()
        return "Spark runs 1 of 2 tasks"

    activity = Activity()
    activity.turn_to("runs batch 7", "working")
    watchdog = Watchdog("test", activity, LifeSigns(tmp_path / "life.json"), detail=detail)
    assert told.wait(30)
    watchdog.close()
    line = caplog.records[0].getMessage()
    assert line == 'takes long app=test doing="runs batch 7" seconds=0 detail="Spark runs 1 of 2 tasks"'


def test_waiting_for_records_is_no_alarm_and_signs_of_life_are_shown(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    looked = threading.Semaphore(0)

    class Counted(LifeSigns):
        def show(self, doing: object) -> None:
            super().show(doing)  # type: ignore[arg-type]
            looked.release()

    signs = Counted(tmp_path / "life.json")
    activity = Activity()
    activity.turn_to("waits for records of lines", "idle")
    watchdog = Watchdog("test", activity, signs, stuck_after=0.01)
    for _ in range(10):
        assert looked.acquire(timeout=30)
    watchdog.close()
    last = signs.last()
    assert last is not None
    assert (last.doing.what, last.doing.effort, caplog.records) == ("waits for records of lines", "idle", [])


def test_what_hangs_is_given_up_once(tmp_path: Path) -> None:
    given_up: list[str] = []
    done = threading.Event()
    activity = Activity()
    activity.turn_to("runs batch 7", "working")

    def abandon() -> None:
        given_up.append(activity.now.what)
        done.set()

    watchdog = Watchdog("test", activity, LifeSigns(tmp_path / "life.json"), stuck_after=0.1, abandon=abandon)
    assert done.wait(30)
    activity.turn_to("waits for records", "idle")
    watchdog.close()
    assert given_up == ["gives up on what it was doing (runs batch 7)"]


def test_signs_of_life_that_are_not_there_or_torn_are_none(tmp_path: Path) -> None:
    signs = LifeSigns(tmp_path / "life.json")
    assert signs.last() is None
    (tmp_path / "life.json").write_text("{")
    assert signs.last() is None
    LifeSigns(tmp_path / "not there" / "life.json").show(Activity().now)  # says nothing, ends nothing
