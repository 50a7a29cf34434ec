"""Ticks of idle inputs are planned, are part of the progress, and are the same when a batch runs again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
from tests.assembling import assemble

from millstream import App, tumbling
from millstream.batch.batch import Batch, Progress, progress_after
from millstream.batch.execute import run_batch, task_names
from millstream.batch.planner import BatchSize
from millstream.broker import TopicConfig
from millstream.log import EmbeddedLog

AFTER = 20_000


class Steps:
    """Plans and runs batches of a windowed count one by one."""

    def __init__(self, log: EmbeddedLog, directory: Path) -> None:
        app = App("test")
        stream = app.stream("n", value=int, idle_after="20 s")
        windows = stream.group_by_key().windowed_by(tumbling("1 s")).emit("final").count(name="counts")
        windows.to_stream().map(lambda window, count: (window.key, count)).to("out")
        log.create_topic("out", TopicConfig(partitions=1))
        assembly = assemble(app, log, state_dir=str(directory))
        self.env = assembly.environment()
        self.now = 1_000_000
        self.planner = assembly.planner(BatchSize(100, 1.0), clock=lambda: self.now)
        self.progress = Progress()

    def plan(self) -> Batch | None:
        return self.planner.plan(self.progress)

    def run(self, batch: Batch | None) -> None:
        assert batch is not None
        reports = run_batch(self.env, batch, self.progress.versions)
        self.progress = progress_after(self.progress, batch, task_names(self.env.layout), reports)


def results(log: EmbeddedLog) -> int:
    return sum(offsets.end for offsets in log.offsets("out"))


def test_each_partition_ticks_by_itself(log: EmbeddedLog, topic: Callable[..., str], tmp_path: Path) -> None:
    topic([1_000_000], [1_000_000])
    steps = Steps(log, tmp_path / "state")
    steps.run(steps.plan())
    assert steps.progress.seen == {"n/0": 1_000_000, "n/1": 1_000_000}
    assert steps.planner.seconds_to_timer(steps.progress) == 20
    steps.now += AFTER
    batch = steps.plan()
    assert batch is not None
    assert batch.ticks == {"n/0": 1_000_000, "n/1": 1_000_000}
    steps.run(batch)
    assert steps.plan() is None
    assert steps.planner.seconds_to_timer(steps.progress) == 20


def test_nothing_ticks_before_the_first_record(log: EmbeddedLog, topic: Callable[..., str], tmp_path: Path) -> None:
    topic([], [])
    steps = Steps(log, tmp_path / "state")
    steps.now += 10 * AFTER
    assert steps.plan() is None


def test_a_run_that_catches_up_does_not_wait_for_ticks(
    log: EmbeddedLog, topic: Callable[..., str], tmp_path: Path
) -> None:
    topic([1_000_000])
    steps = Steps(log, tmp_path / "state")
    steps.run(steps.plan())
    steps.now += AFTER
    assert steps.planner.choose(steps.progress, [], idle=False) is None


def test_a_batch_with_a_tick_gives_the_same_results_when_it_runs_again(
    log: EmbeddedLog, topic: Callable[..., str], tmp_path: Path
) -> None:
    topic([1_000_000])
    steps = Steps(log, tmp_path / "state")
    steps.run(steps.plan())
    steps.now += 2 * AFTER
    planned = msgspec.json.encode(steps.plan())
    before = steps.progress
    for _ in range(2):
        steps.progress, steps.now = before, steps.now + AFTER  # the second run has a later wall clock
        steps.run(msgspec.json.decode(planned, type=Batch))
        assert results(log) == 1
        assert steps.progress.ticks == {"n/0": 1_020_000}
