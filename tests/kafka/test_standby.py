"""A standby: it copies journal and state while another run is alive, and takes over when that run is gone."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from queue import Queue
from typing import Any

import pytest
from tests.kafka.hosts import Host

from millstream import App, Config
from millstream.admin.presence import Presence, live_runs
from millstream.admin.standby import Standby
from millstream.batch.takeover_watch import TakeoverWatch
from millstream.broker import TopicConfig
from millstream.errors import AccessDeniedError, FencedError
from millstream.foundation.paths import state_dir
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
        while not live_runs(second.broker, app.id):
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


class Reports:
    """What a standby logs, at every look at the run instead of once a minute."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._queue: Queue[tuple[int, dict[str, str]]] = Queue()
        monkeypatch.setattr("millstream.admin.standby._REPORT_SECONDS", 0.0)
        monkeypatch.setattr("millstream.admin.standby.log_event", self._log)

    def _log(self, _log: object, level: int, _event: str, facts: dict[str, str]) -> None:
        self._queue.put((level, facts))

    def wait_for(self, name: str, text: str) -> tuple[int, dict[str, str]]:
        """Return the next report in which a fact contains a text."""
        while True:
            level, facts = self._queue.get(timeout=30)
            if text in facts.get(name, ""):
                return level, facts


@contextmanager
def waiting(standby: Standby) -> Iterator[Future[bool]]:
    """Let a standby wait in a thread, and end that if the block fails."""
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(standby.wait)
        try:
            yield future
        finally:
            standby.stopping.set()


@pytest.fixture
def presence(app: App, hosts: Callable[[str], Host]) -> Iterator[Presence]:
    """A run on host a that does nothing more than to be alive, after one batch."""
    host = hosts("a")
    feed(app, *"abc")
    host.run()
    presence = Presence(app.id, host.broker)
    while not live_runs(host.broker, app.id):
        threading.Event().wait(0.05)
    yield presence
    presence.close()


def test_a_standby_logs_which_run_it_waits_for_and_how_far_its_copy_is(
    app: App, hosts: Callable[[str], Host], presence: Presence, monkeypatch: pytest.MonkeyPatch
) -> None:
    reports, host = Reports(monkeypatch), hosts("b")
    with waiting(Standby(host.spec, host.broker)):
        level, facts = reports.wait_for("copy", "standing by at batch 1, 0 tasks were behind")
    assert level == logging.INFO
    assert facts["runs"] == f"process {os.getpid()} on 127.0.0.1"
    assert facts["group"] == f"{app.id}.running"
    assert "problem" not in facts


def test_a_standby_that_cannot_copy_says_so_and_takes_over(
    app: App, hosts: Callable[[str], Host], presence: Presence, monkeypatch: pytest.MonkeyPatch
) -> None:
    reports, host = Reports(monkeypatch), hosts("b")
    path = state_dir(host.disk, app.id)
    path.parent.mkdir(parents=True)
    path.write_text("a file where the state should be")
    with waiting(Standby(host.spec, host.broker)) as is_needed:
        level, _ = reports.wait_for("problem", str(path))
        assert level == logging.WARNING
        assert not is_needed.done()
        presence.close()
        assert is_needed.result(30)


def test_a_standby_watches_the_run_while_it_copies(
    app: App, hosts: Callable[[str], Host], presence: Presence, monkeypatch: pytest.MonkeyPatch
) -> None:
    reports, host = Reports(monkeypatch), hosts("b")
    copying, released = threading.Event(), threading.Event()

    def on_step(_: str) -> None:
        copying.set()
        released.wait()

    with waiting(Standby(host.spec, host.broker, on_step)) as is_needed:
        try:
            assert copying.wait(30)
            for _ in range(3):
                reports.wait_for("runs", "process")
            presence.close()
        finally:
            released.set()
        assert is_needed.result(30)


def test_a_presence_that_cannot_be_kept_up_is_logged_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A standby then takes over from a run that is alive; who looks for the reason finds it in the log of that run."""

    class Refused:
        def __init__(self) -> None:
            self.attempts = 0
            self.is_enough = threading.Event()

        def join_group(self, *_: object, **__: object) -> Refused:
            return self

        def refresh(self, _: object) -> None:
            self.attempts += 1
            if self.attempts == 3:
                self.is_enough.set()
            raise AccessDeniedError("not authorized to participate in group 'words.running'")

        def leave(self) -> None: ...

    warnings: list[str] = []
    monkeypatch.setattr("millstream.admin.presence._POLL_SECONDS", 0.01)
    monkeypatch.setattr(
        "millstream.admin.presence._log.warning", lambda text, *arguments: warnings.append(text % arguments)
    )
    member: Any = Refused()
    presence = Presence("words", member)
    assert member.is_enough.wait(30)
    presence.close()
    assert len(warnings) == 1
    assert "not authorized to participate in group 'words.running'" in warnings[0]


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
