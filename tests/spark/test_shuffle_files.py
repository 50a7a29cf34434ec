"""Shuffle files between the tasks of one job: what each task receives, for which tasks it waits, what ends a wait."""

from __future__ import annotations

import fcntl
import shutil
import threading
from pathlib import Path

import pytest
from pyspark import InheritableThread, SparkContext
from tests.spark.conftest import Feed

from millstream import App, Config
from millstream.spark import job
from millstream.spark.job import BatchJob
from millstream.spark.shuffle_files import AbandonedError, NotStartedError, ShuffleFiles

PATIENCE = 60.0
Items = list[tuple[int, bytes]]


@pytest.fixture
def files(tmp_path: Path) -> ShuffleFiles:
    return ShuffleFiles(tmp_path, 2, 0.05)


def test_each_receiver_gets_its_slices_from_all_senders(files: ShuffleFiles) -> None:
    files.write(0, 0, {0: [(4, b"a")], 1: [(5, b"b"), (7, b"c")]}, 2)
    files.write(0, 1, {1: [(5, b"d")]}, 2)
    assert list(files.read(0, 2, 0)) == [(4, b"a")]
    assert list(files.read(0, 2, 1)) == [(5, b"b"), (7, b"c"), (5, b"d")]


def test_tasks_keep_the_slots_of_the_last_job_and_a_second_attempt_gets_the_slot_of_the_first(
    files: ShuffleFiles,
) -> None:
    assert files.take_slot(0, 1) == 1
    assert files.take_slot(1, 1) == 0
    assert [files.take_slot(index, None) for index in (0, 1)] == [1, 0]


def start_reading(files: ShuffleFiles) -> tuple[threading.Thread, Items, list[Exception]]:
    """Read the files of two senders in a thread."""
    items: Items = []
    errors: list[Exception] = []

    def read() -> None:
        try:
            items.extend(files.read(0, 2, 0))
        except Exception as error:
            errors.append(error)

    thread = threading.Thread(target=read)
    thread.start()
    return thread, items, errors


def test_a_receiver_waits_for_a_sender_that_has_started(files: ShuffleFiles) -> None:
    assert files.take_slot(1, None) == 1
    files.write(0, 0, {}, 2)
    thread, items, errors = start_reading(files)
    thread.join(0.2)  # longer than it waits for tasks that have not started
    assert thread.is_alive()
    files.write(0, 1, {0: [(4, b"a")]}, 2)
    thread.join(PATIENCE)
    assert (items, errors) == ([(4, b"a")], [])


def test_a_receiver_does_not_wait_for_a_sender_that_does_not_start(files: ShuffleFiles) -> None:
    files.write(0, 0, {}, 2)
    with pytest.raises(NotStartedError):
        list(files.read(0, 2, 0))


def test_a_failure_or_the_end_of_the_job_ends_all_waits(files: ShuffleFiles, tmp_path: Path) -> None:
    for end in (files.mark_failed, lambda: shutil.rmtree(tmp_path)):
        files.take_slot(0, None)
        thread, _, errors = start_reading(files)
        end()
        thread.join(PATIENCE)
        assert [type(error) for error in errors] == [AbandonedError]
        (tmp_path / "failed").unlink(missing_ok=True)
    with pytest.raises(AbandonedError):
        files.write(0, 0, {}, 2)


app = App("short-of-slots")
app.stream("n", value=int).group_by(lambda n: n).count(name="counts").to_stream().to("out")


@pytest.mark.spark
@pytest.mark.timeout(300)
@pytest.mark.parametrize("is_known", [True, False], ids=["known before", "found out while waiting"])
def test_a_batch_without_slots_for_all_tasks_uses_a_shuffle(
    tmp_path: Path, feed: Feed, monkeypatch: pytest.MonkeyPatch, is_known: bool
) -> None:
    app.data_dir = tmp_path
    app.config = Config(partitions=2, small_batch_records=0, durability="os")
    feed(app, "n", [b"%d" % (number % 5) for number in range(100)])
    app.run("caught-up")
    if not is_known:
        monkeypatch.setattr(BatchJob, "_has_free_slots", lambda _: True)
        monkeypatch.setattr(job, "_PATIENCE_SECONDS", 1.0)
    context = SparkContext.getOrCreate()
    lock_path = str(tmp_path / "lock")
    slots = context.defaultParallelism - 1

    def occupy(_: object) -> None:
        with Path(lock_path).open() as lock:
            fcntl.flock(lock, fcntl.LOCK_SH)

    parts = max(slots, 1)  # another test may have started Spark with one slot
    others = InheritableThread(lambda: context.parallelize(range(slots), parts).foreach(occupy))
    with Path(lock_path).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        others.start()
        feed(app, "n", [b"%d" % (number % 5) for number in range(100)])
        app.run("caught-up")
    others.join()
    assert dict(app.tables["counts"].items()) == dict.fromkeys(range(5), 40)
