"""Letters between the tasks of one job: who gets which, who waits for whom, and what ends a wait."""

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
from millstream.spark.exchange import AbandonedError, Exchange, NotAllHereError
from millstream.spark.job import BatchJob

PATIENCE = 60.0
Items = list[tuple[int, bytes]]


@pytest.fixture
def exchange(tmp_path: Path) -> Exchange:
    return Exchange(tmp_path, 2, 0.05)


def test_each_receiver_gets_its_own_from_all_senders(exchange: Exchange) -> None:
    exchange.post(0, 0, {0: [(4, b"a")], 1: [(5, b"b"), (7, b"c")]}, 2)
    exchange.post(0, 1, {1: [(5, b"d")]}, 2)
    assert list(exchange.collect(0, 2, 0)) == [(4, b"a")]
    assert list(exchange.collect(0, 2, 1)) == [(5, b"b"), (7, b"c"), (5, b"d")]


def waiting(exchange: Exchange) -> tuple[threading.Thread, Items, list[Exception]]:
    """Wait for the letters of two senders in a thread."""
    found: Items = []
    errors: list[Exception] = []

    def collect() -> None:
        try:
            found.extend(exchange.collect(0, 2, 0))
        except Exception as error:
            errors.append(error)

    thread = threading.Thread(target=collect)
    thread.start()
    return thread, found, errors


def test_a_receiver_waits_for_a_sender_that_has_begun(exchange: Exchange) -> None:
    exchange.begin(1)
    exchange.post(0, 0, {}, 2)
    thread, found, errors = waiting(exchange)
    thread.join(0.2)  # longer than it waits for those who have not begun
    assert thread.is_alive()
    exchange.post(0, 1, {0: [(4, b"a")]}, 2)
    thread.join(PATIENCE)
    assert (found, errors) == ([(4, b"a")], [])


def test_a_sender_that_does_not_begin_is_not_waited_for(exchange: Exchange) -> None:
    exchange.post(0, 0, {}, 2)
    with pytest.raises(NotAllHereError):
        list(exchange.collect(0, 2, 0))


def test_nobody_waits_after_a_failure_or_the_end_of_the_job(exchange: Exchange, tmp_path: Path) -> None:
    for end in (exchange.fail, lambda: shutil.rmtree(tmp_path)):
        exchange.begin(0)
        thread, _, errors = waiting(exchange)
        end()
        thread.join(PATIENCE)
        assert [type(error) for error in errors] == [AbandonedError]
        (tmp_path / "failed").unlink(missing_ok=True)
    with pytest.raises(AbandonedError):
        exchange.post(0, 0, {}, 2)


app = App("short-of-slots")
app.stream("n", value=int).group_by(lambda n: n).count(name="counts").to_stream().to("out")


@pytest.mark.spark
@pytest.mark.timeout(300)
@pytest.mark.parametrize("known", [True, False], ids=["which is known", "which turns out"])
def test_a_batch_whose_tasks_cannot_run_at_once_goes_by_shuffle(
    tmp_path: Path, feed: Feed, monkeypatch: pytest.MonkeyPatch, known: bool
) -> None:
    app.data_dir = tmp_path
    app.config = Config(partitions=2, small_batch_records=0, durability="os")
    feed(app, "n", [b"%d" % (number % 5) for number in range(100)])
    app.run("caught-up")
    if not known:
        monkeypatch.setattr(BatchJob, "_has_room", lambda _: True)
        monkeypatch.setattr(job, "_PATIENCE_SECONDS", 1.0)
    context = SparkContext.getOrCreate()
    place = str(tmp_path / "lock")
    slots = context.defaultParallelism - 1

    def take(_: object) -> None:
        with Path(place).open() as lock:
            fcntl.flock(lock, fcntl.LOCK_SH)

    others = InheritableThread(lambda: context.parallelize(range(slots), slots).foreach(take))
    with Path(place).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        others.start()
        feed(app, "n", [b"%d" % (number % 5) for number in range(100)])
        app.run("caught-up")
    others.join()
    assert dict(app.tables["counts"].items()) == dict.fromkeys(range(5), 40)
