import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.assembling import local_loop
from tests.batch.conftest import ALL, counts

from millstream.batch import loop as loop_module
from millstream.batch.assembly import Assembly
from millstream.batch.batch import Batch
from millstream.batch.execute import run_batch
from millstream.batch.journal import Journal
from millstream.batch.loop import BatchLoop, Execute, Until
from millstream.batch.report import BatchReport
from millstream.broker import Output
from millstream.errors import BrokerUnavailableError, EngineError, EngineStoppedError, ProcessingError
from millstream.foundation.blocks import block_of
from millstream.log import EmbeddedLog
from millstream.records import TopicPartition
from millstream.state.task import StateVersion
from millstream.task.environment import TaskEnvironment
from millstream.task.report import TaskReport

Make = Callable[..., BatchLoop]


@pytest.fixture
def make(assembly: Assembly, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    monkeypatch.setattr(loop_module, "_FIRST_PAUSE_SECONDS", 0.0)

    def make(execute: Execute | None = None, *, size: int = 4, **options: Any) -> BatchLoop:
        journal = Journal(tmp_path / "journal", durable=False)
        return local_loop(assembly, journal, execute, batch_records=size, **options)

    return make


def test_caught_up_runs_until_all_is_read_and_commits_offsets(make: Make, log: EmbeddedLog) -> None:
    reports: list[BatchReport] = []
    make(on_batch=reports.append).run("caught-up")
    assert counts(log) == ALL
    assert [report.plan.number for report in reports] == list(range(1, len(reports) + 1))
    assert len(reports) > 2
    assert [sum(report.lag.values()) for report in reports][-1] == 0
    assert sum(report.records_in for report in reports) == sum(report.records_out for report in reports) == 10
    assert log.committed("test") == {TopicPartition("n", 0): 5, TopicPartition("n", 1): 5}


def test_a_second_run_continues_after_the_first(make: Make, log: EmbeddedLog) -> None:
    make().run("caught-up")
    make().run("caught-up")
    assert counts(log) == ALL
    log.append([Output("n", 0, block_of([b"k"], [b"1"], [9]))])
    make().run("caught-up")
    assert counts(log) == [*ALL, b"11"]


def test_stop_finishes_the_current_batch_and_plans_no_other(make: Make, log: EmbeddedLog, tmp_path: Path) -> None:
    loop: BatchLoop = make(on_batch=lambda _: loop.stop())
    loop.run()
    assert 0 < len(counts(log)) < 10
    make().run("caught-up")
    assert counts(log) == ALL


def test_an_idle_loop_checks_ever_more_rarely_whether_to_stop(
    make: Make, log: EmbeddedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop_module, "_LONG_AFTER_SECONDS", 0.01)
    timeouts: list[float] = []

    def wait(_: object, timeout: float) -> bool:
        timeouts.append(timeout)
        if len(timeouts) == 100_000 or timeout == loop_module._LONG_WAIT_SECONDS:
            loop.stop()
        return False

    monkeypatch.setattr(log, "wait", wait)
    loop = make(size=100)
    loop.run()
    assert timeouts[0] == loop_module._WAIT_SECONDS
    assert timeouts[-1] == loop_module._LONG_WAIT_SECONDS


def test_the_loop_waits_for_new_records(make: Make, log: EmbeddedLog) -> None:
    seen = threading.Event()
    loop = make(size=100, on_batch=lambda _: seen.set())
    thread = threading.Thread(target=loop.run)
    thread.start()
    assert seen.wait(30)
    seen.clear()
    log.append([Output("n", 1, block_of([b"k"], [b"1"], [9]))])
    assert seen.wait(30)
    loop.stop()
    thread.join(30)
    assert counts(log) == [*ALL, b"11"]


def test_the_offsets_of_the_last_batch_are_committed_while_the_loop_waits(
    make: Make, log: EmbeddedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Batches that follow each other commit their offsets once a second; the last of them must not stay behind."""
    monkeypatch.setattr(loop_module, "_COMMIT_SECONDS", 0.2)
    reports: list[BatchReport] = []
    commit = log.commit
    everything = threading.Event()

    def observe(group: str, offsets: Mapping[TopicPartition, int]) -> None:
        commit(group, offsets)
        if sum(offsets.values()) == 10:
            everything.set()

    monkeypatch.setattr(log, "commit", observe)
    loop = make(on_batch=reports.append)
    thread = threading.Thread(target=loop.run)
    thread.start()
    is_committed = everything.wait(30)
    loop.stop()
    thread.join(30)
    assert len(reports) > 2
    assert is_committed


def test_a_retryable_error_is_retried_and_nothing_is_done_twice(
    make: Make, env: TaskEnvironment, log: EmbeddedLog
) -> None:
    """The error is raised after the batch was applied, as when the response of a worker is lost."""
    failures = [BrokerUnavailableError("gone"), BrokerUnavailableError("still gone")]

    def execute(batch: Batch, versions: Mapping[str, StateVersion]) -> list[TaskReport]:
        reports = run_batch(env, batch, versions)
        if failures:
            raise failures.pop()
        return reports

    make(execute).run("caught-up")
    assert (failures, counts(log)) == ([], ALL)


def test_a_commit_of_offsets_that_fails_does_not_run_its_batch_again(
    make: Make, env: TaskEnvironment, log: EmbeddedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures = [BrokerUnavailableError("gone")]
    executed: list[int] = []
    commit = log.commit

    def fail_once(group: str, offsets: Mapping[TopicPartition, int]) -> None:
        if failures:
            raise failures.pop()
        commit(group, offsets)

    def execute(batch: Batch, versions: Mapping[str, StateVersion]) -> list[TaskReport]:
        executed.append(batch.number)
        return run_batch(env, batch, versions)

    monkeypatch.setattr(log, "commit", fail_once)
    make(execute).run("caught-up")
    assert (failures, counts(log)) == ([], ALL)
    assert executed == sorted(set(executed))


def test_pauses_grow_and_the_number_of_attempts_is_limited(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(loop_module, "_FIRST_PAUSE_SECONDS", 1.0)
    monkeypatch.setattr("random.uniform", lambda _low, high: high)

    def execute(batch: Batch, versions: Mapping[str, StateVersion]) -> list[TaskReport]:
        raise BrokerUnavailableError("gone for good")

    loop = make(execute)
    monkeypatch.setattr(loop._stopping, "wait", pauses.append)
    with pytest.raises(BrokerUnavailableError, match="gone for good"):
        loop.run("caught-up")
    assert pauses == [2.0, 4.0, 8.0, 10.0, 10.0, 10.0, 10.0]


def test_an_error_of_user_code_is_raised_at_once(make: Make) -> None:
    executed: list[int] = []

    def execute(batch: Batch, versions: Mapping[str, StateVersion]) -> list[TaskReport]:
        executed.append(batch.number)
        raise ProcessingError("no")

    with pytest.raises(ProcessingError, match="no"):
        make(execute).run("caught-up")
    assert executed == [1]


def test_a_batch_that_was_planned_before_a_crash_runs_first_with_the_same_ranges(
    make: Make, env: TaskEnvironment, log: EmbeddedLog
) -> None:
    batches: list[Batch] = []

    def crash(batch: Batch, versions: Mapping[str, StateVersion]) -> list[TaskReport]:
        batches.append(batch)
        run_batch(env, batch, versions)
        raise KeyboardInterrupt

    def execute(batch: Batch, versions: Mapping[str, StateVersion]) -> list[TaskReport]:
        batches.append(batch)
        return run_batch(env, batch, versions)

    with pytest.raises(KeyboardInterrupt):
        make(crash).run("caught-up")
    log.append([Output("n", 0, block_of([b"k"], [b"1"], [0]))])
    make(execute, size=100).run("caught-up")
    assert batches[0] == batches[1]
    assert counts(log) == [*ALL, b"11"]


def test_each_batch_leaves_a_report_that_accounts_for_its_time(
    make: Make, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "millstream.batch")
    reports: list[BatchReport] = []
    make(on_batch=reports.append).run("caught-up")
    kept = Journal(tmp_path / "journal").history.batches()
    for stored, report in zip(kept, reports, strict=True):
        assert (stored.plan, stored.phases, stored.lag) == (report.plan, report.phases, report.lag)
    assert {task.stage for report in kept for task in report.tasks} == {"n", "n.count-repartition"}
    for report in kept:
        phases = report.phases
        assert min(phases.plan, phases.run, phases.done) > 0
        assert report.seconds == pytest.approx(phases.plan + phases.run + phases.publish + phases.done)
    counted = [task for task in kept[-1].tasks if task.rows]
    assert all(task.bytes.keys() == task.rows.keys() and min(task.bytes.values()) >= 4096 for task in counted)
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == len(reports)
    assert lines[0].startswith("batch done app=test batch=1 in=")


class LocalResident:
    """A resident that runs batches in this process, after raising the given errors."""

    def __init__(self, make: Make, *errors: Exception) -> None:
        self._make = make
        self._errors = list(errors)
        self.first_batches: list[int | None] = []

    def accepts(self, batch: Batch | None, until: Until) -> bool:
        return batch is not None

    def run(
        self,
        until: Until,
        on_batch: Callable[[BatchReport], None],
        stopping: threading.Event,
        on_waiting: Callable[[], None],
    ) -> None:
        loop = self._make(on_batch=on_batch)
        batch = loop._planned
        self.first_batches.append(None if batch is None else batch.number)
        if self._errors:
            raise self._errors.pop()
        loop.run("caught-up")


def test_a_resident_runs_batches_and_its_reports_arrive(make: Make, log: EmbeddedLog) -> None:
    reports: list[BatchReport] = []
    resident = LocalResident(make)
    make(_never, resident=resident, on_batch=reports.append).run("caught-up")
    assert counts(log) == ALL
    assert resident.first_batches == [1]
    assert sum(report.records_in for report in reports) == 10
    assert log.committed("test") == {TopicPartition("n", 0): 5, TopicPartition("n", 1): 5}


def test_the_driver_runs_batches_after_a_resident_has_died(make: Make, log: EmbeddedLog) -> None:
    resident = LocalResident(make, EngineError("killed"))
    make(resident=resident).run("caught-up")
    assert counts(log) == ALL
    assert resident.first_batches == [1]


def test_a_spark_that_has_stopped_ends_the_loop_at_once_so_that_it_is_started_again(make: Make) -> None:
    resident = LocalResident(make, EngineStoppedError("killed"))
    with pytest.raises(EngineStoppedError):
        make(_never, resident=resident).run()


def test_an_error_of_user_code_in_a_resident_ends_the_run_and_offsets_stay_right(make: Make, log: EmbeddedLog) -> None:
    make().run("caught-up")
    log.append([Output("n", 0, block_of([b"k"], [b"1"], [9]))])
    with pytest.raises(ProcessingError, match="no"):
        make(resident=LocalResident(make, ProcessingError("no"))).run("caught-up")
    assert log.committed("test") == {TopicPartition("n", 0): 5, TopicPartition("n", 1): 5}


def _never(batch: Batch, versions: Mapping[str, StateVersion]) -> list[TaskReport]:
    raise AssertionError("the driver must not run this")


def test_an_interval_collects_records(make: Make, log: EmbeddedLog) -> None:
    """The second batch starts an interval after the first and has the records that arrived since."""
    reports: list[BatchReport] = []
    waits: list[float] = []
    loop: BatchLoop

    def append(partition: int) -> None:
        log.append([Output("n", partition, block_of([b"k"], [b"1"], [9]))])

    class Interval(threading.Event):
        """Ends at once, but not before another record has arrived."""

        def wait(self, timeout: float | None = None) -> bool:
            assert timeout is not None
            if timeout > 0:
                waits.append(timeout)
                append(1)
            return self.is_set()

    def on_batch(report: BatchReport) -> None:
        reports.append(report)
        if len(reports) == 1:
            append(0)
        else:
            loop.stop()

    loop = make(size=100, on_batch=on_batch, every_seconds=600.0, stopping=Interval())
    loop.run()
    assert [report.records_in for report in reports] == [10, 2]
    assert len(waits) == 1
    assert 0 < waits[0] <= 600


@pytest.mark.parametrize("until", ["stopped", "caught-up"])
def test_an_interval_does_not_hold_back_a_backlog(make: Make, until: Until) -> None:
    reports: list[BatchReport] = []
    loop: BatchLoop

    def on_batch(report: BatchReport) -> None:
        reports.append(report)
        if until == "stopped" and len(reports) == 2:
            loop.stop()

    began = time.monotonic()
    loop = make(every_seconds=600.0, on_batch=on_batch)
    loop.run(until)
    assert time.monotonic() - began < 300.0
    assert len(reports) >= 2
