from collections.abc import Iterator
from pathlib import Path

import pytest

from millstream.batch import history as history_module
from millstream.batch.batch import Batch, Progress
from millstream.batch.history import Minute
from millstream.batch.journal import Journal
from millstream.batch.report import BatchReport, Phases
from millstream.foundation.storage import close_environments, open_environment
from millstream.task.report import TaskReport
from millstream.task.task_input import Range


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    yield Journal(tmp_path / "journal", durable=False)
    close_environments(tmp_path)


def report(number: int, *tasks: TaskReport, minute: int = 0, records: int = 10) -> BatchReport:
    batch = Batch(number=number, wall_time=0, ranges=(Range("a", 0, 0, records),))
    return BatchReport(
        plan=batch,
        tasks=list(tasks),
        seconds=0.5,
        ended_at=minute * 60_000 + number,
        phases=Phases(plan=0.1, run=0.3, publish=0.05, done=0.05),
        lag={"a/0": number},
    )


def write(journal: Journal, *reports: BatchReport) -> None:
    for batch_report in reports:
        journal.write(Progress(done=batch_report.plan.number), None, batch_report)


def test_a_journal_without_batches_has_an_empty_history(journal: Journal) -> None:
    history = journal.history
    assert (history.batches(), history.minutes(), history.tasks(), history.totals().batches) == ([], [], {}, 0)


def test_the_newest_reports_are_kept_and_returned_oldest_first(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history_module, "BATCHES_KEPT", 5)
    reports = [report(number) for number in range(1, 9)]
    write(journal, *reports)
    assert journal.history.batches() == reports[-5:]
    assert journal.history.batches(2) == reports[-2:]
    assert journal.history.batches(after=7) == reports[-1:]
    assert journal.history.batches(after=8) == []
    assert journal.history.totals().batches == 8


def test_totals_and_minutes_are_sums(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history_module, "MINUTES_KEPT", 3)
    task = TaskReport(
        task=0, stage="s", records_out=2, dropped={"w: late": 1, "w: null_key": 2}, dead_letters=1, version=1
    )
    write(journal, *(report(number, task, minute=minute) for number, minute in enumerate([10, 10, 12, 14], 1)))
    totals = journal.history.totals()
    assert (totals.batches, totals.records_in, totals.records_out, totals.late) == (4, 40, 8, 4)
    assert (totals.dropped, totals.dead_letters, totals.lag) == ({"w: late": 4, "w: null_key": 8}, 4, 4)
    assert totals.phases.run == pytest.approx(1.2)
    minutes = journal.history.minutes()
    assert [(minute.start // 60_000, minute.totals.batches) for minute in minutes] == [(12, 1), (14, 1)]
    assert journal.history.minutes(since=13 * 60_000) == [Minute(14 * 60_000, minutes[-1].totals)]


def test_minutes_have_the_latency_of_their_batches_and_the_size_of_their_state(journal: Journal) -> None:
    def task(number: int, minute: int, size: int) -> TaskReport:
        oldest = minute * 60_000 - 500
        return TaskReport(task=number, stage="s", partition=number, oldest=oldest, bytes={"t": size, "u": 1})

    write(journal, report(1, task(0, 5, 100), task(1, 5, 10), minute=5), report(2, task(0, 6, 200), minute=6))
    first, second = (minute.totals for minute in journal.history.minutes())
    assert (first.latency.count, first.latency.sum_ms, first.state_bytes) == (1, 501, {"s/0": 101, "s/1": 11})
    assert (second.latency.sum_ms, second.state_bytes) == (502, {"s/0": 201})
    assert journal.history.totals().state_bytes == {"s/0": 201, "s/1": 11}


@pytest.mark.parametrize("oldest", [None, 60_002, 60_001 - 3_600_000])
def test_a_batch_has_no_latency_if_its_timestamps_are_not_those_of_sending(oldest: int | None) -> None:
    assert report(1, TaskReport(task=0, stage="s", oldest=oldest), minute=1).latency is None
    assert report(1, TaskReport(task=0, stage="s", oldest=60_000), minute=1).latency == 1


def test_the_last_report_of_a_task_is_kept_while_it_is_idle(journal: Journal) -> None:
    busy = TaskReport(task=0, stage="s", partition=0, version=1, rows={"t": 3})
    other = TaskReport(task=1, stage="s", partition=1, version=2, rows={"t": 5})
    write(journal, report(1, busy, TaskReport(task=1)), report(2, TaskReport(task=0), other))
    assert journal.history.tasks() == {"s/0": busy, "s/1": other}
    assert [batch_report.tasks for batch_report in journal.history.batches()] == [[busy], [other]]


def test_another_process_reads_the_history_while_it_is_written(journal: Journal, tmp_path: Path) -> None:
    write(journal, report(1))
    close_environments(tmp_path)  # LMDB opens a directory once per process
    reader = Journal(tmp_path / "journal", readonly=True)
    assert [batch_report.plan.number for batch_report in reader.history.batches()] == [1]


def test_a_journal_without_a_history_database_can_be_read(tmp_path: Path) -> None:
    open_environment(tmp_path / "journal", ("journal",), sync=False).close()
    reader = Journal(tmp_path / "journal", readonly=True)
    assert reader.history.batches() == []
    close_environments(tmp_path)
