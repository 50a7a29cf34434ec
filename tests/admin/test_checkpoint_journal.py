"""An app with its journal and state in a checkpoint continues on any host that reaches its log."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.kafka.hosts import Host

from millstream import App, Config
from millstream.admin.checkpoints import restore_from_checkpoint
from millstream.admin.journals import open_journal
from millstream.admin.reset import execute_reset, planned_reset
from millstream.batch.activity import Activity, Effort, HeartbeatFile
from millstream.batch.restoring import Restoring
from millstream.batch.shared_journal import Owner
from millstream.broker import Output, TopicConfig
from millstream.cli.run import _restoring
from millstream.errors import FencedError, StateError
from millstream.foundation.blocks import block_of
from millstream.foundation.file_lock import FileLock
from millstream.foundation.paths import activity_file, lock_file, state_dir
from millstream.foundation.storage import close_environments
from millstream.log import EmbeddedLog
from millstream.serve.api.apps import _state
from millstream.views.status import status_of


@pytest.fixture
def log(tmp_path: Path) -> Iterator[EmbeddedLog]:
    with EmbeddedLog(tmp_path / "log", durability="os") as log:
        for topic in ("words", "counts"):
            log.create_topic(topic, TopicConfig(partitions=2))
        yield log


@pytest.fixture
def host(tmp_path: Path, log: EmbeddedLog) -> Iterator[Callable[..., Host]]:
    """Make hosts with their own disks, which use the same log and the same checkpoint."""
    app = App("count", config=Config(partitions=2, caching=False, durability="os"))
    app.stream("words", value=str).group_by(lambda word: word, name="by_word").count(name="n").to_stream().to("counts")

    def host(name: str, **config: Any) -> Host:
        settings: dict[str, Any] = {"checkpoint": str(tmp_path / "checkpoint"), **config}
        return Host(app, f"embedded:{tmp_path / 'log'}", tmp_path / name, **settings)

    del log
    yield host
    close_environments(tmp_path)


def send(log: EmbeddedLog, *words: str) -> None:
    for number, word in enumerate(words):
        log.append([Output("words", number % 2, block_of([None], [word.encode()], [1]))])


def counts(log: EmbeddedLog) -> list[tuple[str, int]]:
    return sorted(
        (key.decode(), int(value))
        for partition, bounds in enumerate(log.offsets("counts"))
        for chunk in log.read("counts", partition, bounds.begin, bounds.end)
        for key, value in zip(chunk.block.column(0).to_pylist(), chunk.block.column(1).to_pylist(), strict=True)
    )


def test_a_host_with_an_empty_disk_continues(log: EmbeddedLog, host: Callable[..., Host]) -> None:
    send(log, "a", "b", "a")
    host("first").run()
    host("first").lose_disk()
    send(log, "a", "b")
    with host("second").running() as run:
        assert run.restored, "tables can be read before the first batch"
        run.catch_up()
    assert counts(log) == [("a", 1), ("a", 2), ("a", 3), ("b", 1), ("b", 2)]


def test_a_host_with_an_old_disk_catches_up(log: EmbeddedLog, host: Callable[..., Host]) -> None:
    send(log, "a", "b")
    host("first").run()
    for _ in range(60):  # more than the journal keeps of its changes
        send(log, "a")
        host("second").run()
    send(log, "b")
    host("first").run()
    assert counts(log)[-3:] == [("a", 61), ("b", 1), ("b", 2)]


def test_of_two_runs_the_first_one_stops_with_one_sentence(log: EmbeddedLog, host: Callable[..., Host]) -> None:
    send(log, "a")
    with host("first").running() as first:
        first.catch_up()
        with host("second").running() as second:
            send(log, "a")
            with pytest.raises(FencedError, match=r"^app 'count' was taken over by process \d+ on .*; this run"):
                first.catch_up()
            second.catch_up()
    assert counts(log) == [("a", 1), ("a", 2)]


def test_an_app_can_move_into_a_checkpoint_out_of_it_and_to_another(
    log: EmbeddedLog, host: Callable[..., Host], tmp_path: Path
) -> None:
    for number, checkpoint in enumerate([None, "one", "two", None, "one", "one"]):
        name = "first" if number < 5 else "with an empty disk"
        send(log, "a")
        host(name, checkpoint=None if checkpoint is None else str(tmp_path / checkpoint)).run()
    assert counts(log) == [("a", number) for number in range(1, 7)]


def test_a_reset_starts_over_on_other_hosts_too(log: EmbeddedLog, host: Callable[..., Host], tmp_path: Path) -> None:
    send(log, "a", "b")
    host("first").run()
    execute_reset(log, tmp_path / "first", planned_reset(log, tmp_path / "first", "count"))
    host("second").run()
    assert counts(log) == [("a", 1), ("a", 1), ("b", 1), ("b", 1)]


def test_a_checkpoint_of_another_log_is_refused(log: EmbeddedLog, host: Callable[..., Host], tmp_path: Path) -> None:
    send(log, "a")
    host("first").run()
    other = EmbeddedLog(tmp_path / "other", durability="os")
    for topic in ("words", "counts"):
        other.create_topic(topic, TopicConfig(partitions=2))
    elsewhere = host("second")
    elsewhere.broker = other
    with pytest.raises(StateError, match="has state and positions of"):
        elsewhere.run()


def test_the_progress_of_a_restore_is_shown_by_terminal_status_and_dashboard(
    log: EmbeddedLog, host: Callable[..., Host], tmp_path: Path
) -> None:
    """With rows, bytes and an estimate, while the restore runs."""
    send(log, *(f"word{number % 97}" for number in range(400)))
    with host("first").running() as run:
        run.catch_up(batch_records=20)
    disk = tmp_path / "second"
    elsewhere = host("second")
    shown: list[tuple[str, str, str]] = []

    class Shown(Activity):
        def set(self, what: str, effort: Effort = "waiting") -> None:
            super().set(what, effort)
            heartbeats = HeartbeatFile(activity_file(disk, "count"))
            heartbeats.write(self.now)
            status = status_of(disk, "count")
            assert status.sign is not None
            assert status.storage == f"in the checkpoint {tmp_path / 'checkpoint'}, with a copy on this host"
            shown.append((_restoring(heartbeats), status.sign.doing.what, _state(status, 0)[1]))

    lock = FileLock(lock_file(disk, "count"))
    disk.mkdir()
    assert lock.acquire()
    try:
        journal = open_journal(elsewhere.spec, elsewhere.broker, Owner.new())
        restore_from_checkpoint(
            "count", state_dir(disk, "count"), journal, str(tmp_path / "checkpoint"), Restoring(Shown())
        )
    finally:
        lock.release()
    pattern = r"restoring [\w/-]+ \(task \d of 4\) from the checkpoint: [\d,]+ rows, [\d.]+ MB(, about \d+ s left)?"
    assert all(re.fullmatch(pattern, text) for texts in shown for text in texts), shown
    assert any("s left" in text and " 0 rows" not in text for text, _, _ in shown)
