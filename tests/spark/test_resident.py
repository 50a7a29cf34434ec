"""Resident mode on Spark: the resident task runs batches, hands control back, is killed, and stops."""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.spark.apps import levels, picky, words
from tests.spark.conftest import Feed, Read

from millstream import App, Config
from millstream.batch.report import BatchReport
from millstream.errors import DefinitionError, ProcessingError
from millstream.foundation.file_lock import FileLock
from millstream.foundation.paths import lease_file
from millstream.spark import resident as resident_module
from millstream.spark.run import SparkRun

pytestmark = [pytest.mark.spark, pytest.mark.timeout(240)]

PATIENCE = 60.0
CONFIG = Config(partitions=2, caching=False)


class Reports:
    """Collects the reports of a run and waits for them."""

    def __init__(self) -> None:
        self.all: list[BatchReport] = []
        self._changed = threading.Condition()

    def __call__(self, report: BatchReport) -> None:
        with self._changed:
            self.all.append(report)
            self._changed.notify_all()

    @property
    def records(self) -> int:
        return sum(report.records_in for report in self.all)

    def wait_for(self, records: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: self.records >= records, PATIENCE), f"{self.records} of {records}"


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., tuple[SparkRun, Reports]]]:
    """Start an app with trigger="realtime"; it is stopped at the end of the test."""
    runs: list[SparkRun] = []

    def start(app: App, config: Config = CONFIG) -> tuple[SparkRun, Reports]:
        app.data_dir, app.config = tmp_path, config
        reports = Reports()
        runs.append(app.start(trigger="realtime", on_batch=reports))
        return runs[-1], reports

    yield start
    for run in runs:
        run.stop()
        run._thread.join(PATIENCE)


Start = Callable[..., tuple[SparkRun, Reports]]


def resident_process(app: App) -> int:
    """Return the process that holds the lease."""
    process = FileLock(lease_file(app.data_dir, app.id)).holder()
    assert process is not None
    return process


def test_a_resident_task_processes_records(
    tmp_path: Path, start: Start, feed: Feed, read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resident_module, "_RESIDENT_SECONDS", 600.0)
    feed(_in_directory(words, tmp_path), "lines", [b"a b"])
    run, reports = start(words)
    reports.wait_for(1)
    process = resident_process(words)
    for number in range(1, 21):
        feed(words, "lines", [b"a b"])
        reports.wait_for(1 + number)

    assert process == resident_process(words) != os.getpid()
    assert [report.plan.number for report in reports.all] == list(range(1, 22))
    run.stop()
    assert run.wait(PATIENCE)
    assert dict(words.tables["words"].items()) == {"a": 21, "b": 21}
    assert [value for key, value in read(words, "word-counts") if key == "a"] == [b"%d" % n for n in range(1, 22)]


def test_the_driver_processes_a_burst_and_then_a_resident_task_continues(
    tmp_path: Path, start: Start, feed: Feed, read: Read
) -> None:
    feed(_in_directory(words, tmp_path), "lines", [b"a"])
    _, reports = start(words, Config(partitions=2, caching=False, small_batch_records=50))
    reports.wait_for(1)
    feed(words, "lines", [b"a"] * 400)
    reports.wait_for(401)
    feed(words, "lines", [b"a"])
    reports.wait_for(402)
    words.stop()

    assert max(report.records_in for report in reports.all) > 50
    assert [int(value) for _, value in read(words, "word-counts")] == list(range(1, 403))


@pytest.mark.crash
def test_a_killed_resident_task_loses_and_duplicates_nothing(
    tmp_path: Path, start: Start, feed: Feed, read: Read
) -> None:
    fed = 0

    def fed_until_resident() -> int:
        """Feed until there is a resident task; after one has died the driver runs batches for a while."""
        nonlocal fed
        while True:
            feed(levels, "lines", [b"a b"])
            fed += 1
            reports.wait_for(fed)
            if (process := resident_process(levels)) != os.getpid():
                return process

    feed(_in_directory(levels, tmp_path), "lines", [b"a b"])
    fed += 1
    _, reports = start(levels)
    for _ in range(3):
        os.kill(fed_until_resident(), signal.SIGKILL)
        feed(levels, "lines", [b"a b"] * 10)
        fed += 10
        reports.wait_for(fed)
    levels.stop()

    assert dict(levels.tables["counts"].items()) == {"a": fed, "b": fed}
    assert dict(levels.tables["reached"].items()) == dict.fromkeys(range(1, fed + 1), 2)
    updates = Counter(value for _, value in read(levels, "reached-counts"))
    assert updates == {b"1": fed, b"2": fed}


def test_one_resident_task_after_the_other_processes_records(
    tmp_path: Path, start: Start, feed: Feed, read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resident_module, "_RESIDENT_SECONDS", 0.05)
    feed(_in_directory(words, tmp_path), "lines", [b"a"])
    _, reports = start(words)
    for number in range(1, 31):
        reports.wait_for(number)
        feed(words, "lines", [b"a"])
    reports.wait_for(31)
    words.stop()

    assert [int(value) for _, value in read(words, "word-counts")] == list(range(1, 32))


def test_an_error_of_user_code_ends_the_run_with_its_message(tmp_path: Path, start: Start, feed: Feed) -> None:
    feed(_in_directory(picky, tmp_path), "numbers", [b"5"], partitions=1)
    run, reports = start(picky, Config(partitions=1))
    reports.wait_for(1)
    feed(picky, "numbers", [b"0"], partitions=1)
    with pytest.raises(ProcessingError, match="node 'divide' failed on record"):
        run.wait(PATIENCE)


def test_an_error_in_on_batch_ends_the_run(tmp_path: Path, feed: Feed) -> None:
    feed(_in_directory(words, tmp_path), "lines", [b"a"])

    def on_batch(report: BatchReport) -> None:
        raise RuntimeError("enough")

    words.config = CONFIG
    with pytest.raises(ProcessingError, match="on_batch failed after batch 1: RuntimeError: enough"):
        words.start(trigger="realtime", on_batch=on_batch).wait(PATIENCE)
    assert words.tables["words"]["a"] == 1


def test_the_realtime_trigger_needs_small_batches(tmp_path: Path) -> None:
    words.data_dir, words.config = tmp_path, Config(small_batch_records=0)
    with pytest.raises(DefinitionError, match='trigger="realtime" needs small batches'):
        words.start(trigger="realtime")


def _in_directory(app: App, directory: Path) -> App:
    app.data_dir = directory
    return app
