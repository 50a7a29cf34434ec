"""Functions that are called for each job."""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.queues.conftest import Queue

from millstream import App, Reject
from millstream.broker import TopicConfig
from millstream.errors import DefinitionError
from millstream.log import EmbeddedLog
from millstream.queues.worker import Worker
from millstream.queues.worker_pool import WorkerPool
from millstream.records import Record


@pytest.fixture
def app(tmp_path: Path) -> Iterator[App]:
    with EmbeddedLog(tmp_path) as log:
        log.create_topic("jobs", TopicConfig(partitions=1))
        yield App("mail", data_dir=tmp_path)


def send(app: App, *values: object) -> None:
    with app.producer() as producer:
        for value in values:
            producer.send("jobs", value)


def letters(app: App) -> list[Record[Any, Any]]:
    with app.consumer(topics="mailers.dead-letters", stop_at_end=True) as consumer:
        return list(consumer)


def test_every_job_is_run_once_and_in_parallel(app: App) -> None:
    together = threading.Barrier(4, timeout=30)
    seen: list[int] = []

    @app.worker("jobs", group="mailers", concurrency=4, start="earliest")
    def mail(job: Record[Any, Any]) -> None:
        together.wait()  # no job ends before four run
        seen.append(job.value)

    send(app, *range(8))
    app.work(until="idle")
    assert sorted(seen) == list(range(8))


def test_a_job_that_raises_is_tried_again_and_then_becomes_a_dead_letter(app: App) -> None:
    tries: Counter[str] = Counter()

    @app.worker("jobs", group="mailers", start="earliest", max_deliveries=3, retry="10 ms")
    def mail(job: Record[Any, Any]) -> None:
        tries[job.value] += 1
        if job.value == "poison" or (job.value == "flaky" and tries["flaky"] < 3):
            raise ValueError(f"cannot send {job.value}")

    send(app, "fine", "flaky", "poison")
    app.work(until="idle")
    assert tries == {"fine": 1, "flaky": 3, "poison": 3}
    (letter,) = letters(app)
    headers = dict(letter.headers)
    assert (letter.value, headers["__streams.errors.message"]) == ("poison", b"cannot send poison")
    assert b"in mail" in (headers["__streams.errors.stacktrace"] or b"")


def test_a_worker_that_exits_fails_for_its_job_only(app: App) -> None:
    seen = []

    @app.worker("jobs", group="mailers", start="earliest", max_deliveries=1)
    def mail(job: Record[Any, Any]) -> None:
        seen.append(job.value)
        if job.value == "exit":
            sys.exit(3)

    send(app, "exit", "fine")
    app.work(until="idle")
    assert seen == ["exit", "fine"]
    assert [letter.value for letter in letters(app)] == ["exit"]


def test_reject_makes_a_dead_letter_at_once(app: App) -> None:
    tries = []

    @app.worker("jobs", group="mailers", start="earliest")
    def mail(job: Record[Any, Any]) -> None:
        tries.append(job.value)
        raise Reject("bad address")

    send(app, "x")
    app.work(until="idle")
    assert tries == ["x"]
    assert dict(letters(app)[0].headers)["__streams.errors.message"] == b"bad address"


def test_the_lock_is_renewed_while_a_job_runs(app: App) -> None:
    """A second member waits for the job for several locks, and does not get it."""
    runs = []

    @app.worker("jobs", group="mailers", start="earliest", lock="1.5 s")
    def mail(job: Record[Any, Any]) -> None:
        runs.append(job.value)
        with app.share_consumer("mailers", topics="jobs") as other:
            assert other.poll(timeout="3 s") == []

    send(app, "long")
    app.work(until="idle")
    assert runs == ["long"]


def test_the_delay_grows_up_to_its_limit(app: App) -> None:
    app.worker("jobs", group="mailers", retry="1 s", max_retry="5 s")(print)
    assert [app.workers[0].delay_ms(delivery) for delivery in range(1, 6)] == [1_000, 2_000, 4_000, 5_000, 5_000]


@pytest.mark.parametrize("options", [{"concurrency": 0}, {"group": "a b"}, {"topics": ()}])
def test_a_worker_that_cannot_run_is_refused(app: App, options: dict[str, Any]) -> None:
    with pytest.raises(DefinitionError):
        app.worker(**{"topics": "jobs", "group": "mailers", **options})(print)


def test_an_app_without_workers_cannot_work(app: App) -> None:
    with pytest.raises(DefinitionError, match="'mail' has no workers; declare one"):
        app.work()


def test_a_pool_works_on_both_brokers(queue: Queue) -> None:
    tries: Counter[str] = Counter()

    def work(job: Record[Any, Any]) -> None:
        tries[job.value] += 1
        if job.value == "poison":
            raise ValueError("cannot send")

    queue.send("a", "b", "poison")
    worker = Worker(
        work=work,
        topics=(queue.topic,),
        group=queue.group,
        value=str,
        concurrency=2,
        start="earliest",
        max_deliveries=2,
        retry="10 ms",
    )
    with WorkerPool(queue.broker, "mail", [worker]) as pool:
        pool.run("idle")
    assert tries == {"a": 1, "b": 1, "poison": 2}
    assert [letter.value for letter in queue.letters()] == ["poison"]
