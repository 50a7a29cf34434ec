"""Real-time mode on real Spark: a task that stays, hands over, is killed, and stops."""

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
from millstream.foundation.paths import lease_file
from millstream.foundation.storage import FileLock
from millstream.spark import resident as resident_module
from millstream.spark.run import SparkRun

pytestmark = [pytest.mark.spark, pytest.mark.timeout(240)]

PATIENCE = 60.0
CONFIG = Config(partitions=2, caching=False)


class Seen:
    """Reports of a run, and how to wait for them."""

    def __init__(self) -> None:
        self.reports: list[BatchReport] = []
        self._news = threading.Condition()

    def __call__(self, report: BatchReport) -> None:
        with self._news:
            self.reports.append(report)
            self._news.notify_all()

    @property
    def records(self) -> int:
        return sum(report.records_in for report in self.reports)

    def wait_for(self, records: int) -> None:
        with self._news:
            assert self._news.wait_for(lambda: self.records >= records, PATIENCE), f"{self.records} of {records}"


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., tuple[SparkRun, Seen]]]:
    """Start an app in real-time mode; whatever happens, it is stopped."""
    runs: list[SparkRun] = []

    def start(app: App, config: Config = CONFIG) -> tuple[SparkRun, Seen]:
        app.data_dir, app.config = tmp_path, config
        seen = Seen()
        runs.append(app.start(trigger="realtime", on_batch=seen))
        return runs[-1], seen

    yield start
    for run in runs:
        run.stop()
        run._thread.join(PATIENCE)


Start = Callable[..., tuple[SparkRun, Seen]]


def resident_process(app: App) -> int:
    """Return the process that holds the lease."""
    process = FileLock(lease_file(app.data_dir, app.id)).holder()
    assert process is not None
    return process


def test_records_are_processed_by_a_task_that_stays(
    tmp_path: Path, start: Start, feed: Feed, read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resident_module, "_STAY_SECONDS", 600.0)
    feed(_at(words, tmp_path), "lines", [b"a b"])
    run, seen = start(words)
    seen.wait_for(1)
    process = resident_process(words)
    for number in range(1, 21):
        feed(words, "lines", [b"a b"])
        seen.wait_for(1 + number)

    assert process == resident_process(words) != os.getpid()
    assert [report.plan.number for report in seen.reports] == list(range(1, 22))
    run.stop()
    assert run.wait(PATIENCE)
    assert dict(words.tables["words"].items()) == {"a": 21, "b": 21}
    assert [value for key, value in read(words, "word-counts") if key == "a"] == [b"%d" % n for n in range(1, 22)]


def test_a_burst_is_handed_to_the_driver_and_back(tmp_path: Path, start: Start, feed: Feed, read: Read) -> None:
    feed(_at(words, tmp_path), "lines", [b"a"])
    _, seen = start(words, Config(partitions=2, caching=False, small_batch_records=50))
    seen.wait_for(1)
    feed(words, "lines", [b"a"] * 400)
    seen.wait_for(401)
    feed(words, "lines", [b"a"])
    seen.wait_for(402)
    words.stop()

    assert max(report.records_in for report in seen.reports) > 50
    assert [int(value) for _, value in read(words, "word-counts")] == list(range(1, 403))


def test_a_killed_resident_task_loses_and_doubles_nothing(tmp_path: Path, start: Start, feed: Feed, read: Read) -> None:
    fed = 0

    def fed_until_resident() -> int:
        """Feed until a task stays; after a death the driver runs batches itself for a while."""
        nonlocal fed
        while True:
            feed(levels, "lines", [b"a b"])
            fed += 1
            seen.wait_for(fed)
            if (process := resident_process(levels)) != os.getpid():
                return process

    feed(_at(levels, tmp_path), "lines", [b"a b"])
    fed += 1
    _, seen = start(levels)
    for _ in range(3):
        os.kill(fed_until_resident(), signal.SIGKILL)
        feed(levels, "lines", [b"a b"] * 10)
        fed += 10
        seen.wait_for(fed)
    levels.stop()

    assert dict(levels.tables["counts"].items()) == {"a": fed, "b": fed}
    assert dict(levels.tables["reached"].items()) == dict.fromkeys(range(1, fed + 1), 2)
    updates = Counter(value for _, value in read(levels, "reached-counts"))
    assert updates == {b"1": fed, b"2": fed}


def test_its_time_is_up_again_and_again(
    tmp_path: Path, start: Start, feed: Feed, read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resident_module, "_STAY_SECONDS", 0.05)
    feed(_at(words, tmp_path), "lines", [b"a"])
    _, seen = start(words)
    for number in range(1, 31):
        seen.wait_for(number)
        feed(words, "lines", [b"a"])
    seen.wait_for(31)
    words.stop()

    assert [int(value) for _, value in read(words, "word-counts")] == list(range(1, 32))


def test_an_error_of_user_code_ends_the_run_with_its_sentence(tmp_path: Path, start: Start, feed: Feed) -> None:
    feed(_at(picky, tmp_path), "numbers", [b"5"], partitions=1)
    run, seen = start(picky, Config(partitions=1))
    seen.wait_for(1)
    feed(picky, "numbers", [b"0"], partitions=1)
    with pytest.raises(ProcessingError, match="node 'divide' failed on record"):
        run.wait(PATIENCE)


def test_an_error_in_on_batch_ends_the_run(tmp_path: Path, feed: Feed) -> None:
    feed(_at(words, tmp_path), "lines", [b"a"])

    def complain(report: BatchReport) -> None:
        raise RuntimeError("enough")

    words.config = CONFIG
    with pytest.raises(RuntimeError, match="enough"):
        words.start(trigger="realtime", on_batch=complain).wait(PATIENCE)
    assert words.tables["words"]["a"] == 1


def test_real_time_needs_small_batches(tmp_path: Path) -> None:
    words.data_dir, words.config = tmp_path, Config(small_batch_records=0)
    with pytest.raises(DefinitionError, match='trigger="realtime" needs small batches'):
        words.start(trigger="realtime")


def _at(app: App, directory: Path) -> App:
    app.data_dir = directory
    return app
