"""The driver shows how far workers on other hosts have restored their states."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from millstream.batch.activity import Activity
from millstream.batch.restoring import is_restore
from millstream.spark.restore_progress import ProgressAddress, RestoreProgress, sender_to
from millstream.task.changelog import CatchUp, ignore_restore


class _WatchedActivity(Activity):
    """An activity that can be waited for."""

    def __init__(self) -> None:
        super().__init__()
        self.changed = threading.Condition()

    def set(self, *arguments: str) -> None:
        with self.changed:
            super().set(*arguments)  # type: ignore[arg-type]
            self.changed.notify_all()

    def wait_for(self, text: str) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: text in self.now.what, 10.0), self.now.what


class _Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def activity() -> _WatchedActivity:
    return _WatchedActivity()


@pytest.fixture
def driver(activity: Activity) -> Iterator[RestoreProgress]:
    progress = RestoreProgress("127.0.0.1", "127.0.0.1", activity)
    yield progress
    progress.close()


def test_restores_of_a_batch_are_its_activity_while_they_last(
    driver: RestoreProgress, activity: _WatchedActivity
) -> None:
    clocks = [_Clock(), _Clock()]
    senders = [sender_to(driver.address, clock) for clock in clocks]
    activity.set("running batch 7", "working")
    with driver.shown():
        for partition, (sender, clock) in enumerate(zip(senders, clocks, strict=True)):
            sender(f"words/{partition}", CatchUp(0, 0, 0, 0, 100))
            clock.now += 2.0 * (partition + 1)
            sender(f"words/{partition}", CatchUp(500, 40_000, 50, 0, 100))
        activity.wait_for("2 tasks on ")
        assert is_restore(activity.now.what)
        assert activity.now.what.endswith(": 1,000 rows, 0.1 MB, about 4 s left")
    assert activity.now.what == "running batch 7"
    assert activity.now.effort == "working"


def test_a_restore_of_less_than_a_second_sends_nothing(driver: RestoreProgress, activity: _WatchedActivity) -> None:
    clock = _Clock()
    sender = sender_to(driver.address, clock)
    with driver.shown():
        sender("words/0", CatchUp(0, 0, 0, 0, 100))
        sender("words/0", CatchUp(10, 400, 100, 0, 100))
        sender("words/1", CatchUp(0, 0, 0, 0, 100))
        clock.now += 1.5
        sender("words/1", CatchUp(20, 800, 50, 0, 100))
        activity.wait_for("words/1 on ")
        assert ": 20 rows" in activity.now.what


def test_progress_that_arrives_after_the_batch_is_not_shown(
    driver: RestoreProgress, activity: _WatchedActivity
) -> None:
    clock = _Clock()
    sender = sender_to(driver.address, clock)
    sender("words/0", CatchUp(0, 0, 0, 0, 100))
    clock.now += 2.0
    with driver.shown():
        sender("words/0", CatchUp(10, 400, 10, 0, 100))
        activity.wait_for("words/0 on ")
    clock.now += 2.0
    sender("words/0", CatchUp(30, 900, 30, 0, 100))
    driver.close()
    assert not is_restore(activity.now.what)


def test_a_driver_that_cannot_be_reached_is_asked_once_and_the_restore_goes_on() -> None:
    clock = _Clock()
    with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor(1) as pool:
        refused = pool.submit(lambda: server.accept()[0].close())
        sender = sender_to(ProgressAddress(("127.0.0.1", server.getsockname()[1]), b"secret"), clock)
        for rows in range(5):
            sender("words/0", CatchUp(rows, 0, rows, 0, 5))
            clock.now += 2.0
        refused.result(10.0)
        server.setblocking(False)
        with pytest.raises(BlockingIOError):
            server.accept()


def test_progress_without_the_secret_of_the_run_is_not_shown(
    driver: RestoreProgress, activity: _WatchedActivity
) -> None:
    address = driver.address
    assert address is not None
    clocks = [_Clock(), _Clock()]
    stranger = sender_to(ProgressAddress(address.driver, b"another secret"), clocks[0])
    worker = sender_to(address, clocks[1])
    with driver.shown():
        for task, sender, clock in (("stranger/0", stranger, clocks[0]), ("words/0", worker, clocks[1])):
            sender(task, CatchUp(0, 0, 0, 0, 100))
            clock.now += 2.0
            sender(task, CatchUp(10, 400, 10, 0, 100))
        activity.wait_for("words/0 on ")


def test_workers_of_one_host_report_nothing() -> None:
    assert sender_to(None) is ignore_restore
