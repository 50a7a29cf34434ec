"""Waiting for records: fast across processes, without polling, and without leftover files."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import monotonic, time, time_ns
from typing import TYPE_CHECKING, Any

import pytest

from millstream.broker import Output, TopicConfig
from millstream.errors import StorageError, UnknownTopicError
from millstream.foundation.blocks import block_of
from millstream.log import EmbeddedLog, waiting
from millstream.log.waiting import LogWaiter, notify
from millstream.records import TopicPartition

if TYPE_CHECKING:
    from tests.log.conftest import Send

_ECHO = """
import sys
from pathlib import Path
from time import time_ns
from millstream.log import EmbeddedLog
from millstream.records import TopicPartition
with EmbeddedLog(Path(sys.argv[1])) as log:
    print("ready", flush=True)
    for position in range(int(sys.argv[2])):
        log.wait({TopicPartition("lines", 0): position}, 30)
        print(time_ns(), flush=True)
"""


def test_existing_records_end_a_wait_immediately(log: EmbeddedLog, topic: str, send: Send) -> None:
    send(topic, "a")
    assert log.wait({TopicPartition(topic, 0): 0, TopicPartition(topic, 1): 0}, 0)


def test_a_wait_times_out(log: EmbeddedLog, topic: str, send: Send) -> None:
    send(topic, "a")
    began = monotonic()
    assert not log.wait({TopicPartition(topic, 0): 1}, 0.05)
    assert monotonic() - began >= 0.05


def test_a_write_to_any_of_the_topics_ends_the_wait(log: EmbeddedLog, topic: str, send: Send) -> None:
    log.create_topic("other", TopicConfig(partitions=1))
    positions = {TopicPartition(topic, 0): 0, TopicPartition("other", 0): 0}
    timer = threading.Timer(0.05, lambda: send("other", "a"))
    timer.start()
    assert log.wait(positions, 30)
    timer.join()


def test_a_write_to_another_partition_does_not_end_the_wait(log: EmbeddedLog, topic: str, send: Send) -> None:
    timer = threading.Timer(0.02, lambda: send(topic, "a", partition=1))
    timer.start()
    assert not log.wait({TopicPartition(topic, 0): 0}, 0.2)
    timer.join()


def test_wake_up_across_processes_takes_under_ten_milliseconds(log: EmbeddedLog, topic: str, tmp_path: Path) -> None:
    rounds = 40
    program = [sys.executable, "-c", _ECHO, str(tmp_path), str(rounds)]
    delays = []
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        for _ in range(rounds):
            log.append([Output(topic, 0, block_of([None], [b"x"], [0]))])
            committed = time_ns()
            delays.append((int(process.stdout.readline()) - committed) / 1e6)
    print(f"wake-up p50 {median(delays):.2f} ms, worst {max(delays):.2f} ms")
    assert median(delays) < 10


def test_a_wait_does_not_spin(tmp_path: Path) -> None:
    looks = 0

    def look() -> bool:
        nonlocal looks
        looks += 1
        return False

    waiter = LogWaiter()
    assert not waiter.wait([tmp_path], look, 0.1)
    waiter.close()
    assert looks <= 3


def test_pipes_are_reused_and_finally_removed(tmp_path: Path) -> None:
    waiter = LogWaiter()
    for _ in range(3):
        waiter.wait([tmp_path / "a", tmp_path / "b"], lambda: True, 1)
    assert [len(list((tmp_path / name).iterdir())) for name in "ab"] == [1, 1]
    waiter.wait([tmp_path / "b"], lambda: True, 1)
    assert [len(list((tmp_path / name).iterdir())) for name in "ab"] == [0, 1]
    waiter.close()
    assert [len(list((tmp_path / name).iterdir())) for name in "ab"] == [0, 0]


def is_woken(waiter: LogWaiter, directory: Path) -> bool:
    """Whether a notification after the first check makes the waiter check again before the timeout."""
    looks, deadline = 0, monotonic() + 10.0

    def look() -> bool:
        nonlocal looks
        looks += 1
        if looks == 1:
            notify(directory)
        return looks == 2 and monotonic() < deadline

    return waiter.wait([directory], look, 10.0)


class Calls:
    """Functions of ``os``, some of them replaced for the module under test only, since other threads need them too."""

    def __init__(self, **replaced: Callable[..., Any]) -> None:
        self._replaced = replaced

    def __getattr__(self, name: str) -> Any:
        return self._replaced.get(name) or getattr(os, name)


@pytest.mark.parametrize("call", ["mkfifo", "open"])
def test_a_pipe_under_construction_is_not_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    """A writer notifies at each step of creating the pipe."""

    def called(*arguments: Any) -> Any:
        result = getattr(os, call)(*arguments)
        with monkeypatch.context() as undone:
            undone.setattr(waiting, "os", os)
            notify(tmp_path)
        return result

    waiter = LogWaiter()
    with monkeypatch.context() as watched:
        watched.setattr(waiting, "os", Calls(**{call: called}))
        assert not waiter.wait([tmp_path], lambda: False, 0.0)
    assert is_woken(waiter, tmp_path)
    waiter.close()


@pytest.mark.parametrize("failing", ["open", "rename"])
def test_a_failed_wait_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.EMFILE, "too many open files")

    monkeypatch.setattr(waiting, "os", Calls(**{failing: fail}))
    with pytest.raises(StorageError, match="too many open files"):
        LogWaiter().wait([tmp_path], lambda: True, 0.0)
    assert not list(tmp_path.iterdir())
    assert not [end for end in Path("/proc/self/fd").iterdir() if os.path.realpath(end).startswith(str(tmp_path))]


def test_a_wait_survives_the_deletion_of_its_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory, trash = tmp_path / "waiters", tmp_path / "trash"

    def deleted(path: Path, target: Path) -> None:
        directory.rename(trash)
        path.rename(target)

    monkeypatch.setattr(waiting, "os", Calls(rename=deleted))
    waiter = LogWaiter()
    assert waiter.wait([directory], lambda: True, 1.0)
    waiter.close()


def test_abandoned_pipes_are_removed_after_a_time(tmp_path: Path) -> None:
    for name, age in ((".dead", 120.0), (".just-made", 0.0)):
        os.mkfifo(tmp_path / name)
        os.utime(tmp_path / name, (time() - age,) * 2)
    waiter = LogWaiter()
    waiter.wait([tmp_path], lambda: True, 1.0)
    waiter.close()
    assert [pipe.name for pipe in tmp_path.iterdir()] == [".just-made"]


def test_many_notifications_do_not_block_the_sender(tmp_path: Path) -> None:
    waiter = LogWaiter()
    waiter.wait([tmp_path], lambda: True, 1)
    for _ in range(70_000):  # more than a pipe holds
        notify(tmp_path)
    assert is_woken(waiter, tmp_path)
    waiter.close()


@pytest.mark.crash
def test_the_pipe_of_a_killed_waiter_is_removed(log: EmbeddedLog, topic: str, send: Send, tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _ECHO, str(tmp_path), "1"], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        waiters = log._catalog.get(topic).waiters
        deadline = monotonic() + 30
        while not (waiters.exists() and list(waiters.glob("[!.]*"))) and monotonic() < deadline:
            threading.Event().wait(0.01)
        process.kill()
        process.wait()
    assert len(list(waiters.iterdir())) == 1
    send(topic, "a")
    assert list(waiters.iterdir()) == []


def test_deleting_the_topic_ends_a_wait_with_an_error(log: EmbeddedLog, topic: str) -> None:
    timer = threading.Timer(0.05, lambda: log.delete_topic(topic))
    timer.start()
    with pytest.raises(UnknownTopicError):
        log.wait({TopicPartition(topic, 0): 0}, 30)
    timer.join()


def test_a_reader_that_dies_while_it_is_notified_does_not_fail_the_writer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipe = tmp_path / "waiter"
    os.mkfifo(pipe)
    reader, open_file = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK), os.open

    def open_before_the_death(path: Path, flags: int) -> int:
        end = open_file(path, flags)
        os.close(reader)
        return end

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", open_before_the_death)
        notify(tmp_path)
    notify(tmp_path)
    assert not pipe.exists(), "a pipe without a reader is removed"
