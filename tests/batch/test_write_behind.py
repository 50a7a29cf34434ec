"""State that is written behind: what is committed when, and what remains after a failure."""

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
from millstream.batch.batch import progress_after
from millstream.batch.execute import run_batch, task_names
from millstream.batch.journal import Journal
from millstream.batch.loop import BatchLoop
from millstream.batch.planner import BatchSize, Planner
from millstream.batch.report import BatchReport
from millstream.batch.write_behind import DeferredJournal, WriteBehind, can_write_behind
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

    def __init__(self, env: TaskEnvironment, journal: Path) -> None:
        self.env = env
        self.reported: list[int] = []
        self.behind = WriteBehind(
            env, DeferredJournal(journal, durable=False), lambda report: self.reported.append(report.plan.number)
        )
        self.planner = Planner(env.broker, ["n"], BatchSize(4, 1.0))
        self.progress, self.planned = self.behind.journal.read()

    def run(self) -> None:
        batch = self.planner.plan(self.progress)
        assert batch is not None
        reports = self.behind(batch, self.progress.versions)
        self.progress = progress_after(self.progress, batch, task_names(self.env.layout), reports)
        report = BatchReport(plan=batch, tasks=reports, seconds=0.0)
        self.behind.journal.write(self.progress, None, report)
        self.behind.defer_report(report)

    def state_commits(self) -> int:
        files = self.env.state_dir.rglob("data.mdb")
        return sum(open_environment(file.parent, sync=False).last_commit() for file in files)


@pytest.fixture
def steps(env: TaskEnvironment, tmp_path: Path) -> Iterator[Steps]:
    steps = Steps(env, tmp_path / "journal")
    yield steps
    die(steps)  # an open transaction would end in the thread that collects it, with a warning


def die(steps: Steps) -> None:
    """Lose everything that is not on disk, as when the process dies."""
    steps.behind._abort()


def finish(env: TaskEnvironment, journal: Path) -> None:
    """Continue in another execution mode until everything is read."""
    planner = Planner(env.broker, ["n"], BatchSize(1000, 1.0))
    execute = partial(run_batch, env)
    BatchLoop("test", Journal(journal, durable=False), planner, execute, task_names(env.layout)).run("caught-up")


def test_a_batch_is_one_commit_of_the_journal_and_one_of_its_topic(
    steps: Steps, log: EmbeddedLog, tmp_path: Path
) -> None:
    steps.run()
    journal, out = open_environment(tmp_path / "journal", sync=False), log._catalog.get("out").environment
    before = journal.last_commit(), out.last_commit(), steps.state_commits()
    steps.run()
    assert (journal.last_commit(), out.last_commit(), steps.state_commits()) == (
        before[0] + 1,
        before[1] + 1,
        before[2],
    )
    steps.behind.flush()
    assert steps.state_commits() > before[2]


def test_commits_that_are_not_in_the_states_are_in_the_journal(
    steps: Steps, env: TaskEnvironment, log: EmbeddedLog, tmp_path: Path
) -> None:
    steps.run()
    steps.run()
    die(steps)
    Journal(tmp_path / "journal", durable=False).replay_commits(env.state_dir)
    finish(env, tmp_path / "journal")
    assert counts(log) == ALL


def test_a_batch_that_was_not_published_is_served_from_its_outbox(
    steps: Steps, env: TaskEnvironment, log: EmbeddedLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps.run()

    def dies(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(EmbeddedLog, "append_together", dies)
    with pytest.raises(KeyboardInterrupt):
        steps.run()
    die(steps)
    journal = Journal(tmp_path / "journal", durable=False)
    journal.replay_commits(env.state_dir)
    progress, planned = journal.read()
    assert planned is not None
    assert all(report.replayed for report in run_batch(env, planned, progress.versions) if report.stage)
    finish(env, tmp_path / "journal")
    assert counts(log) == ALL


def test_reports_are_sent_when_their_batches_are_marked_as_done(steps: Steps, tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal", durable=False)
    steps.run()
    assert (steps.reported, journal.read()[0].done) == ([], 0)
    steps.run()
    assert (steps.reported, journal.read()[0].done) == ([1], 1)
    steps.behind.flush()
    assert (steps.reported, journal.read()[0].done) == ([1, 2], 2)
    assert [report.plan.number for report in journal.history.batches()] == [1, 2]


def test_close_leaves_no_commits_to_replay(steps: Steps, env: TaskEnvironment, tmp_path: Path) -> None:
    steps.run()
    steps.behind.close()
    commits = steps.state_commits()
    Journal(tmp_path / "journal", durable=False).replay_commits(env.state_dir)
    assert steps.state_commits() == commits


def test_a_savepoint_contains_commits_that_are_not_in_the_states(
    env: TaskEnvironment, log: EmbeddedLog, tmp_path: Path
) -> None:
    env.state_dir = state_dir(tmp_path, "test")
    journal = journal_dir(tmp_path, "test")
    steps = Steps(env, journal)
    steps.run()
    steps.behind.flush()
    steps.run()
    create_savepoint(tmp_path, "test", "now", tmp_path / "savepoints")
    steps.run()
    steps.behind.close()
    restore_savepoint(tmp_path, "test", "now", tmp_path / "savepoints")
    env.lineage = "restored"
    Journal(journal, durable=False).replay_commits(env.state_dir)
    finish(env, journal)
    assert counts(log)[-6:] == ALL[-6:], "the batches after the last one marked as done are published again"


Make = Callable[[Callable[[int], int]], TaskEnvironment]


@pytest.fixture
def counting(log: EmbeddedLog, topic: Callable[..., str], tmp_path: Path) -> Make:
    """Make an environment that counts ten records after mapping them with a function."""

    def make(function: Callable[[int], int]) -> TaskEnvironment:
        topic(list(range(10)))
        log.create_topic("out", TopicConfig(partitions=1))
        app = App("test")
        app.stream("n", value=int).map_values(function).group_by_key().count().to_stream().to("out")
        return assemble(app, log, state_dir=str(tmp_path / "state"), caching=False).environment()

    return make


def test_a_batch_that_fails_does_not_affect_others(counting: Make, log: EmbeddedLog, tmp_path: Path) -> None:
    broken: list[int] = []

    def function(n: int) -> int:
        if broken:
            raise ValueError("broken")
        return n

    steps = Steps(counting(function), tmp_path / "journal")
    steps.run()
    broken.append(1)
    with pytest.raises(ProcessingError):
        steps.run()
    broken.clear()
    for _ in range(2):
        steps.run()
    steps.behind.close()
    assert counts(log) == ALL
    close_environments(tmp_path)


def test_a_full_map_grows(counting: Make, log: EmbeddedLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage, "_FIRST_MAP_BYTES", 1 << 17)
    steps = Steps(counting(lambda n: n), tmp_path / "journal")
    keys = [b"%0100d" % number for number in range(5000)]
    log.append([Output("n", 0, block_of(keys, [b"1"] * 5000, [9] * 5000))])
    steps.planner = Planner(log, ["n"], BatchSize(10_000, 1.0))
    steps.run()
    steps.behind.close()
    assert len(counts(log)) == 5010
    close_environments(tmp_path)


def test_an_app_with_a_global_table_is_not_written_behind(
    log: EmbeddedLog, env: TaskEnvironment, tmp_path: Path
) -> None:
    app = App("test")
    app.stream("n", value=int).join(app.global_table("out"), lambda n, _: n, key=lambda key, _: key).to("joined")
    joined = assemble(app, log, state_dir=str(tmp_path / "joined")).environment()
    assert (can_write_behind(env), can_write_behind(joined)) == (True, False)
