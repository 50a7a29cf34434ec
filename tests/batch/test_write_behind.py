"""State that is written behind: what is committed when, and what is left of it when something goes wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.assembling import assemble
from tests.batch.conftest import ALL, counts

from millstream import App
from millstream.admin.savepoints import create_savepoint, restore_savepoint
from millstream.batch.batch import Batch, advanced
from millstream.batch.execute import run_batch, task_names
from millstream.batch.journal import Journal
from millstream.batch.loop import BatchLoop
from millstream.batch.planner import BatchSize, Planner
from millstream.batch.report import BatchReport
from millstream.batch.write_behind import PatientJournal, WriteBehind, may_write_behind
from millstream.broker import Output, TopicConfig
from millstream.errors import ProcessingError
from millstream.foundation import storage
from millstream.foundation.blocks import block_of
from millstream.foundation.paths import journal_dir, state_dir
from millstream.foundation.storage import close_environments, open_environment
from millstream.log import EmbeddedLog
from millstream.task.environment import TaskEnvironment


class Steps:
    """Runs batches of four records by hand, as the loop of a resident task would."""

    def __init__(self, site: TaskEnvironment, journal: Path) -> None:
        self.site = site
        self.told: list[int] = []
        self.behind = WriteBehind(
            site, PatientJournal(journal, durable=False), lambda report: self.told.append(report.plan.number)
        )
        self.planner = Planner(site.broker, ["n"], BatchSize(4, 1.0))
        self.progress, self.planned = self.behind.journal.read()

    def plan(self) -> Batch:
        plan = self.planner.plan(self.progress)
        assert plan is not None
        return plan

    def batch(self) -> None:
        plan = self.plan()
        reports = self.behind(plan, self.progress.versions)
        self.progress = advanced(self.progress, plan, task_names(self.site.layout), reports)
        report = BatchReport(plan=plan, tasks=reports, seconds=0.0)
        self.behind.journal.write(self.progress, None, report)
        self.behind.tell(report)

    def state_commits(self) -> int:
        files = self.site.state_dir.rglob("data.mdb")
        return sum(open_environment(file.parent, sync=False).last_commit() for file in files)


@pytest.fixture
def steps(site: TaskEnvironment, tmp_path: Path) -> Iterator[Steps]:
    steps = Steps(site, tmp_path / "journal")
    yield steps
    die(steps)  # a transaction that is left open ends in whatever thread collects it, and complains there


def die(steps: Steps) -> None:
    """Lose all that is not on disk, as the end of the process does."""
    steps.behind._drop()


def finish(site: TaskEnvironment, journal: Path) -> None:
    """Go on in another gear, until everything is read."""
    planner = Planner(site.broker, ["n"], BatchSize(1000, 1.0))
    execute = partial(run_batch, site)
    BatchLoop("test", Journal(journal, durable=False), planner, execute, task_names(site.layout)).run("caught-up")


def test_a_batch_is_one_commit_of_the_journal_and_one_of_its_topic(
    steps: Steps, log: EmbeddedLog, tmp_path: Path
) -> None:
    steps.batch()
    journal, out = open_environment(tmp_path / "journal", sync=False), log._catalog.get("out").environment
    before = journal.last_commit(), out.last_commit(), steps.state_commits()
    steps.batch()
    assert (journal.last_commit(), out.last_commit(), steps.state_commits()) == (
        before[0] + 1,
        before[1] + 1,
        before[2],
    )
    steps.behind.rest()
    assert steps.state_commits() > before[2]


def test_what_was_not_settled_is_in_the_journal(
    steps: Steps, site: TaskEnvironment, log: EmbeddedLog, tmp_path: Path
) -> None:
    steps.batch()
    steps.batch()
    die(steps)
    Journal(tmp_path / "journal", durable=False).settle(site.state_dir)
    finish(site, tmp_path / "journal")
    assert counts(log) == ALL


def test_a_batch_that_was_not_published_is_served_from_its_outbox(
    steps: Steps, site: TaskEnvironment, log: EmbeddedLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps.batch()

    def dies(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(EmbeddedLog, "append_together", dies)
    with pytest.raises(KeyboardInterrupt):
        steps.batch()
    die(steps)
    journal = Journal(tmp_path / "journal", durable=False)
    journal.settle(site.state_dir)
    progress, planned = journal.read()
    assert planned is not None
    assert all(report.replayed for report in run_batch(site, planned, progress.versions) if report.stage)
    finish(site, tmp_path / "journal")
    assert counts(log) == ALL


def test_reports_are_told_when_their_batches_are_noted_as_done(steps: Steps, tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal", durable=False)
    steps.batch()
    assert (steps.told, journal.read()[0].done) == ([], 0)
    steps.batch()
    assert (steps.told, journal.read()[0].done) == ([1], 1)
    steps.behind.rest()
    assert (steps.told, journal.read()[0].done) == ([1, 2], 2)
    assert [report.plan.number for report in journal.history.batches()] == [1, 2]


def test_a_close_leaves_nothing_to_settle(steps: Steps, site: TaskEnvironment, tmp_path: Path) -> None:
    steps.batch()
    steps.behind.close()
    commits = steps.state_commits()
    Journal(tmp_path / "journal", durable=False).settle(site.state_dir)
    assert steps.state_commits() == commits


def test_a_savepoint_of_state_that_is_behind_is_whole(site: TaskEnvironment, log: EmbeddedLog, tmp_path: Path) -> None:
    site.state_dir = state_dir(tmp_path, "test")
    journal = journal_dir(tmp_path, "test")
    steps = Steps(site, journal)
    steps.batch()
    steps.behind.rest()
    steps.batch()
    create_savepoint(tmp_path, "test", "now", tmp_path / "savepoints")
    steps.batch()
    steps.behind.close()
    restore_savepoint(tmp_path, "test", "now", tmp_path / "savepoints")
    site.lineage = "restored"
    Journal(journal, durable=False).settle(site.state_dir)
    finish(site, journal)
    assert counts(log)[-6:] == ALL[-6:], "the batch that was not noted as done, and those after it, are published anew"


Make = Callable[[Callable[[int], int]], TaskEnvironment]


@pytest.fixture
def counting(log: EmbeddedLog, topic: Callable[..., str], tmp_path: Path) -> Make:
    """Make a site that counts ten records after sending them through a function."""

    def make(function: Callable[[int], int]) -> TaskEnvironment:
        topic(list(range(10)))
        log.create_topic("out", TopicConfig(partitions=1))
        app = App("test")
        app.stream("n", value=int).map_values(function).group_by_key().count().to_stream().to("out")
        return assemble(app, log, state_dir=str(tmp_path / "state"), caching=False).environment()

    return make


def test_a_batch_that_fails_takes_nothing_else_with_it(counting: Make, log: EmbeddedLog, tmp_path: Path) -> None:
    broken: list[int] = []

    def function(n: int) -> int:
        if broken:
            raise ValueError("broken")
        return n

    steps = Steps(counting(function), tmp_path / "journal")
    steps.batch()
    broken.append(1)
    with pytest.raises(ProcessingError):
        steps.batch()
    broken.clear()
    for _ in range(2):
        steps.batch()
    steps.behind.close()
    assert counts(log) == ALL
    close_environments(tmp_path)


def test_a_full_map_grows(counting: Make, log: EmbeddedLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage, "_FIRST_MAP_BYTES", 1 << 17)
    steps = Steps(counting(lambda n: n), tmp_path / "journal")
    keys = [b"%0100d" % number for number in range(5000)]
    log.append([Output("n", 0, block_of(keys, [b"1"] * 5000, [9] * 5000))])
    steps.planner = Planner(log, ["n"], BatchSize(10_000, 1.0))
    steps.batch()
    steps.behind.close()
    assert len(counts(log)) == 5010
    close_environments(tmp_path)


def test_what_changes_more_than_state_is_not_written_behind(
    log: EmbeddedLog, site: TaskEnvironment, tmp_path: Path
) -> None:
    app = App("test")
    app.stream("n", value=int).join(app.global_table("out"), lambda n, _: n, key=lambda key, _: key).to("joined")
    joined = assemble(app, log, state_dir=str(tmp_path / "joined")).environment()
    assert (may_write_behind(site), may_write_behind(joined)) == (True, False)
