"""The disk of the state or of the journal is full: a clear error, nothing half done, and on it goes with space."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Literal

import pytest

from millstream import App, Config
from millstream.batch import loop as loop_module
from millstream.batch.execute import run_batch, task_names
from millstream.batch.journal import Journal
from millstream.batch.loop import BatchLoop, Execute
from millstream.batch.planner import BatchSize, Planner
from millstream.batch.write_behind import PatientJournal, WriteBehind
from millstream.broker import Broker, Output, TopicConfig
from millstream.errors import StorageFullError
from millstream.foundation.blocks import block_of
from millstream.foundation.storage import close_environments
from millstream.log import EmbeddedLog
from millstream.plan.layout import Layout
from millstream.tables.opening import readers_of
from millstream.task.environment import TaskEnvironment
from millstream.task.policy import Policies

pytestmark = pytest.mark.crash


@pytest.mark.parametrize("run", ["at once", "behind"])
@pytest.mark.parametrize("full", ["state", "journal"])
def test_a_full_disk_stops_the_app_and_nothing_is_lost_or_doubled(
    tmp_path: Path, small_disk: Path, monkeypatch: pytest.MonkeyPatch, full: Literal["state", "journal"], run: str
) -> None:
    monkeypatch.setattr(loop_module, "_FIRST_PAUSE_SECONDS", 0.0)
    places = {"state": tmp_path / "state", "journal": tmp_path / "journal"}
    places[full] = small_disk / full
    app = App("full", config=Config(caching=False))
    app.stream("words", value=str).group_by_key().reduce(lambda _, new: new, name="newest").to_stream().to("out")
    with EmbeddedLog(tmp_path / "log") as log:
        for topic in ("words", "out"):
            log.create_topic(topic, TopicConfig(partitions=1))
        site = TaskEnvironment(
            app="full",
            layout=Layout.of(app.plan, {"words": 1}),
            broker=log,
            state_dir=places["state"],
            policies=Policies.of("full", app.config),
            caching=False,
        )
        sent: list[bytes] = []
        ballast = small_disk / "ballast"
        run_all = _run_behind if run == "behind" else _run
        run_all(site, places["journal"])
        disk = os.statvfs(small_disk)
        ballast.write_bytes(b"x" * (disk.f_bavail * disk.f_frsize - (700_000 if full == "state" else 60_000)))
        with pytest.raises(StorageFullError, match=r"no space left .*; free some disk space; nothing was lost"):
            _run_until_it_fails(partial(run_all, site, places["journal"]), site.broker, sent)
        ballast.unlink()
        run_all(site, places["journal"])
        (offsets,) = log.offsets("out")
        written = [one for chunk in log.read("out", 0, 0, offsets.end) for one in chunk.block.column(1).to_pylist()]
        assert Counter(written) == Counter(sent)
        rows = readers_of(site.layout, places["state"])["newest"]
        assert sorted(value.encode() for _, value in rows.items()) == sorted(sent)
    close_environments(tmp_path)


def _run_until_it_fails(run: Callable[[], None], log: Broker, sent: list[bytes]) -> None:
    for _ in range(40):
        sent += _feed(log)
        run()


def _feed(log: Broker) -> list[bytes]:
    values = [os.urandom(2000).hex().encode() for _ in range(30)]
    log.append([Output("words", 0, block_of([value[:16] for value in values], values, [0] * len(values)))])
    return values


def _run(site: TaskEnvironment, journal: Path) -> None:
    _loop(site, Journal(journal), partial(run_batch, site)).run("caught-up")


def _run_behind(site: TaskEnvironment, journal: Path) -> None:
    behind = WriteBehind(site, PatientJournal(journal))
    try:
        _loop(site, behind.journal, behind).run("caught-up")
    finally:
        behind.close()


def _loop(site: TaskEnvironment, journal: Journal, execute: Execute) -> BatchLoop:
    size = BatchSize(20, 1.0)
    return BatchLoop(
        app="full",
        broker=site.broker,
        journal=journal,
        planner=Planner(site.broker, ["words"], size),
        size=size,
        task_names=task_names(site.layout),
        execute=execute,
    )
