"""Wall-clock timers start batches, but do not keep a run from being caught up."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.assembling import assemble, local_loop

from millstream import App, Processor, Record, key_value_store, punctuate
from millstream.batch.assembly import Assembly
from millstream.batch.batch import Progress, progress_after
from millstream.batch.execute import run_batch, task_names
from millstream.batch.journal import Journal
from millstream.batch.loop import BatchLoop
from millstream.batch.pausing import Pauses, StoppedQuery, change_pauses
from millstream.batch.planner import BatchSize
from millstream.batch.report import BatchReport
from millstream.batch.timers import next_due, timed_tasks
from millstream.broker import Output, TopicConfig
from millstream.foundation.blocks import block_of
from millstream.foundation.storage import close_environments
from millstream.log import EmbeddedLog
from millstream.windows import FOREVER


class Ticks(Processor):
    stores = {"number": key_value_store()}

    @punctuate(every="10 ms", on="wall")
    def tick(self, now: int) -> None:
        number = self.context.store("number")
        number.put("n", number.get("n", 0) + 1)
        self.context.forward(key="tick", value=[number["n"], now])

    def process(self, record: Record) -> None:
        self.context.forward(record)


class Later(Ticks):
    """Schedules its timer with the first record, so it has nothing to do at the start."""

    stores = Ticks.stores

    def tick(self, now: int) -> None:
        super().tick(now)

    def process(self, record: Record) -> None:
        self.context.schedule(self.tick, every="10 ms", on="wall")


Assemble = Callable[..., Assembly]


@pytest.fixture
def ticking(log: EmbeddedLog, tmp_path: Path) -> Iterator[Assemble]:
    """Assemble an app with a processor that has timers."""

    def make(kind: type[Processor], partitions: int = 1) -> Assembly:
        for topic in ("n", "out"):
            log.create_topic(topic, TopicConfig(partitions=partitions))
        app = App("test")
        app.stream("n", value=int).process(kind, name="ticks").to("out", key=str)
        return assemble(app, log, state_dir=str(tmp_path / "state"), caching=False, durable=False)

    yield make
    close_environments(tmp_path)


def values(log: EmbeddedLog) -> list[bytes]:
    (offsets,) = log.offsets("out")
    return [value for chunk in log.read("out", 0, 0, offsets.end) for value in chunk.block.column(1).to_pylist()]


class Steps:
    """Plans and runs batches one by one, at the wall-clock times that a test sets."""

    def __init__(self, assembly: Assembly) -> None:
        self.now = 1_000
        self.env = assembly.environment()
        self.progress = Progress()
        self.timed = timed_tasks(assembly.layout)
        self.planner = assembly.planner(BatchSize(100, 1.0), clock=lambda: self.now)

    def step(self) -> tuple[str, ...] | None:
        batch = self.planner.plan(self.progress)
        if batch is None:
            return None
        reports = run_batch(self.env, batch, self.progress.versions)
        self.progress = progress_after(self.progress, batch, task_names(self.env.layout), reports)
        return batch.timers


def test_a_batch_is_planned_at_the_start_and_then_for_each_timer(ticking: Assemble, log: EmbeddedLog) -> None:
    steps = Steps(ticking(Ticks))
    assert steps.step() == ("n/0",)
    assert (steps.step(), values(log)) == (None, [])
    assert next_due(steps.timed, steps.progress) == 1_010
    steps.now = 1_010
    assert (steps.step(), steps.step()) == (("n/0",), None)
    steps.now = 1_055
    assert (steps.step(), steps.step()) == (("n/0",), None)
    assert values(log) == [b"[1,1010]", b"[2,1055]"]
    assert steps.planner.seconds_to_timer(steps.progress) == 0.005


def test_timers_of_a_paused_app_wait(ticking: Assemble, log: EmbeddedLog) -> None:
    assembly = ticking(Ticks)
    steps = Steps(assembly)
    steps.step()
    state_dir = Path(assembly.settings.state_dir)
    change_pauses(state_dir, lambda _: Pauses(queries={"Q": StoppedQuery("paused", ("n",))}))
    steps.now = 1_055
    assert (steps.step(), values(log)) == (None, [])
    assert steps.planner.seconds_to_timer(steps.progress) > 1_000_000
    change_pauses(state_dir, lambda _: Pauses())
    assert (steps.step(), values(log)) == (("n/0",), [b"[1,1055]"])


def test_due_timers_are_called_before_the_records_of_the_same_batch(ticking: Assemble, log: EmbeddedLog) -> None:
    steps = Steps(ticking(Ticks))
    steps.step()
    steps.now = 1_010
    log.append([Output("n", 0, block_of([b"k"], [b"5"], [0]))])
    assert steps.step() == ("n/0",)
    assert values(log) == [b"[1,1010]", b"5"]


def test_each_partition_has_its_own_timers(ticking: Assemble) -> None:
    steps = Steps(ticking(Later, partitions=2))
    assert (steps.step(), next_due(steps.timed, steps.progress)) == (None, FOREVER)
    steps.env.broker.append([Output("n", 1, block_of([b"k"], [b"5"], [0]))])
    assert steps.step() == ()
    steps.now = 1_010
    assert steps.step() == ("n/1",)


def loop(assembly: Assembly, tmp_path: Path, **options: Any) -> BatchLoop:
    return local_loop(assembly, Journal(tmp_path / "journal", durable=False), batch_records=100, **options)


def test_the_loop_wakes_for_timers_without_records(ticking: Assemble, tmp_path: Path, log: EmbeddedLog) -> None:
    enough = threading.Event()
    reports: list[BatchReport] = []

    def on_batch(report: BatchReport) -> None:
        reports.append(report)
        if sum(task.records_out for report in reports for task in report.tasks) == 3:
            enough.set()

    running = loop(ticking(Ticks), tmp_path, on_batch=on_batch)
    thread = threading.Thread(target=running.run)
    thread.start()
    assert enough.wait(30)
    running.stop()
    thread.join(30)
    assert [int(value.strip(b"[").split(b",")[0]) for value in values(log)][:3] == [1, 2, 3]
    assert {report.records_in for report in reports} == {0}


def test_a_run_that_has_caught_up_ends_although_timers_are_pending(
    ticking: Assemble, tmp_path: Path, log: EmbeddedLog
) -> None:
    assembly = ticking(Ticks)
    reports: list[BatchReport] = []
    loop(assembly, tmp_path, on_batch=reports.append).run("caught-up")
    assert [report.plan.timers for report in reports] == [("n/0",)]
    log.append([Output("n", 0, block_of([b"k"], [b"5"], [0]))])
    loop(assembly, tmp_path, on_batch=reports.append).run("caught-up")
    assert len(reports) == 2


def test_a_batch_of_timers_that_was_interrupted_runs_again_at_the_same_wall_time(
    ticking: Assemble, tmp_path: Path, log: EmbeddedLog
) -> None:
    assembly = ticking(Ticks)
    journal = Journal(tmp_path / "journal", durable=False)
    steps = Steps(assembly)
    steps.step()
    steps.now = 1_010
    batch = steps.planner.plan(steps.progress)
    assert batch is not None
    journal.write(steps.progress, batch)
    run_batch(steps.env, batch, steps.progress.versions)  # then the process dies, before the batch is marked as done
    planner = assembly.planner(BatchSize(100, 1.0), clock=lambda: 1_015)
    again = assembly.loop(journal, planner, partial(run_batch, steps.env))
    again.run("caught-up")
    assert values(log) == [b"[1,1010]"]
    progress, planned = journal.read()
    assert (progress.timers, planned) == ({"n/0": {"ticks": 1_020}}, None)
