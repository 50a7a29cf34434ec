"""A standby: it copies journal and state while another run is alive, and takes over when that run is gone."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from queue import Queue

import pytest
from tests.kafka.hosts import Host

from millstream import App, Config
from millstream.admin.standby import Presence, Standby, is_running
from millstream.batch.takeover_watch import TakeoverWatch
from millstream.broker import TopicConfig
from millstream.errors import FencedError
from millstream.kafka import KafkaBroker
from millstream.testing.kafka import Cluster

pytestmark = pytest.mark.kafka


@pytest.fixture
def app(cluster: Cluster, kafka: KafkaBroker, name: str) -> App:
    app = App(name, broker=cluster.url, config=Config(partitions=2, caching=False))
    app.stream(f"{name}-in", value=str).group_by(lambda word: word).count(name="words").to_stream().to(f"{name}-out")
    for topic in ("in", "out"):
        kafka.create_topic(f"{name}-{topic}", TopicConfig(partitions=2))
    return app


@pytest.fixture
def hosts(app: App, cluster: Cluster, tmp_path: Path) -> Iterator[Callable[[str], Host]]:
    with ExitStack() as opened:

        def host(name: str) -> Host:
            new = Host(app, cluster.url, tmp_path / name, behind=True)
            opened.callback(new.close)
            return new

        yield host


def feed(app: App, *words: str) -> None:
    with app.producer(value=str) as producer:
        for word in words:
            producer.send(f"{app.id}-in", word)


def test_a_standby_copies_while_another_run_is_alive_and_takes_over_when_it_is_gone(
    app: App, hosts: Callable[[str], Host]
) -> None:
    first, second = hosts("a"), hosts("b")
    feed(app, *"abc")
    copied = threading.Event()

    def on_step(text: str) -> None:
        if text.startswith(f"standing by at batch {batch}, 0 tasks"):
            copied.set()

    run = first.start()
    presence = Presence(app.id, first.broker)
    standby = Standby(second.spec, second.broker, on_step)
    try:
        while not is_running(second.broker, app.id):
            threading.Event().wait(0.05)
        run.catch_up()
        batch = run.journal.read()[0].done
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(standby.wait)
            try:
                assert copied.wait(30), "the standby has not copied the state"
                assert not waiting.done()
            except BaseException:
                standby.stopping.set()
                raise
            presence.close()
            assert waiting.result(30), "the run is gone"
        feed(app, *"ab")
        with second.running() as taken_over:
            assert taken_over.restored == [], "the copy was up to date"
            taken_over.catch_up()
            assert taken_over.journal.read()[0].done == batch + 1
            feed(app, "c")
            with pytest.raises(FencedError):
                run.catch_up()
    finally:
        presence.close()
        run.stop()


def test_a_run_that_is_stuck_in_a_batch_notices_that_another_has_taken_over(
    app: App, hosts: Callable[[str], Host]
) -> None:
    """As after a cut: the driver has lost its executors, and waits for Spark, which never runs the batch."""
    first, second = hosts("a"), hosts("b")
    feed(app, *"abc")
    errors: Queue[FencedError] = Queue()
    run = first.start()
    watch = TakeoverWatch(run.journal, errors.put, seconds=0.1)
    try:
        run.catch_up()
        run.journal.look_for_takeover()  # it is still the owner
        with second.running() as other:
            other.catch_up()
            assert "was taken over by process" in errors.get(timeout=30).message
    finally:
        watch.close()
        run.stop()


def test_a_standby_can_be_stopped_and_takes_over_an_app_without_a_run(app: App, hosts: Callable[[str], Host]) -> None:
    host = hosts("a")
    assert Standby(host.spec, host.broker).wait()
    stopped = Standby(host.spec, host.broker)
    stopped.stopping.set()
    assert not stopped.wait()
