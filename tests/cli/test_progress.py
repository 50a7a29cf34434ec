import io
import re
import sys

import pytest
from rich.console import Console

from millstream.batch.activity import Activity
from millstream.batch.batch import Batch
from millstream.batch.report import BatchReport
from millstream.cli import progress
from millstream.cli.output import show_message
from millstream.cli.progress import RunTotals, show_progress
from millstream.task.report import TaskReport
from millstream.task.task_input import Range


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def report(number: int, records: int, *tasks: TaskReport, lag: int = 0) -> BatchReport:
    ranges = (Range(topic="lines", partition=0, start=0, stop=records),)
    plan = Batch(number=number, wall_time=0, ranges=ranges)
    return BatchReport(plan=plan, tasks=list(tasks), seconds=0.5, lag={"lines/0": lag} if lag else {})


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def totals(clock: Clock) -> RunTotals:
    return RunTotals("shop", clock=clock)


def test_before_the_first_batch(totals: RunTotals) -> None:
    assert totals.line() == "shop: starting Spark"
    totals.is_started = True
    assert totals.line() == "shop: waiting for records"
    totals.waiting_records = 4_211
    assert totals.line() == "shop: running the first batch; 4,211 records waiting"
    assert totals.summary() == "shop stopped after 0.0 s: 0 batches, 0 records in, 0 out"


def test_what_keeps_a_run_from_progress_is_shown(totals: RunTotals) -> None:
    totals.is_started = True
    activity = Activity()
    totals.obstacle = lambda: activity.obstacle
    activity.set("planning a batch")
    assert totals.line() == "shop: waiting for records"
    activity.set("waiting to retry after an error: no space left", "retrying")
    assert totals.line() == "shop: waiting to retry after an error: no space left"
    totals.add(report(1, 1))
    assert totals.line().startswith("shop: state waiting to retry after an error: no space left; records 1 in")
    activity.set("running batch 2", "working")
    assert totals.line().startswith("shop: records 1 in")


def test_batches_add_up(totals: RunTotals, clock: Clock) -> None:
    clock.now += 5
    totals.add(report(1, 1000, TaskReport(task=1, records_out=3, rows={"words": 7}), lag=4000))
    clock.now += 0.5
    totals.add(report(2, 500, TaskReport(task=1, rows={"words": 8}), TaskReport(task=2, rows={"words": 1})))
    assert totals.details() == [
        ("records", "1,500 in, 3 out, 1,500/s"),
        ("batches", "2, the last in 0.50 s"),
        ("lag", "none"),
        ("rows", "words 9"),
    ]
    assert totals.summary() == "shop stopped after 5.5 s: 2 batches, 1,500 records in, 3 out"


def test_the_rate_is_of_the_last_seconds(totals: RunTotals, clock: Clock) -> None:
    totals.add(report(1, 1000))
    clock.now += 11
    assert totals.rate == 0
    totals.add(report(2, 50))
    assert totals.rate == 5


def test_dropped_records_are_shown(totals: RunTotals) -> None:
    totals.add(report(1, 9, TaskReport(task=1, dropped={"words: null_key": 2}), lag=1200))
    assert totals.details()[2:] == [("lag", "lines 1,200"), ("dropped", "words: null_key 2")]


def test_dead_letters_are_shown_once_with_their_topic(totals: RunTotals) -> None:
    hint = "in shop.dead-letters (see: millstream consume shop.dead-letters --from-beginning -v)"
    totals.add(report(1, 9, TaskReport(task=1, dropped={"words: null_key": 2, "words: error": 1}, dead_letters=1)))
    assert totals.details()[3:] == [("dropped", "words: null_key 2"), ("dead letters", "1 in shop.dead-letters")]
    assert totals.summary().endswith(f"1 batch, 9 records in, 0 out, 1 dead letter {hint}")


def test_a_line_shows_the_largest_counts_only_and_repeats_no_hint(totals: RunTotals) -> None:
    rows = {f"table-{number}": number for number in range(1, 9)}
    totals.add(report(1, 9, TaskReport(task=1, rows=rows, dropped={"words: error": 1}, dead_letters=1)))
    assert "rows table-6 6, table-7 7, table-8 8 and 5 more;" in totals.line()
    assert "millstream consume" not in totals.line()


def test_records_that_were_skipped_are_dropped(totals: RunTotals) -> None:
    totals.add(report(1, 9, TaskReport(task=1, dropped={"words: error": 2})))
    assert totals.details()[3:] == [("dropped", "words: error 2")]


def test_the_dead_letter_topic_can_be_configured() -> None:
    totals = RunTotals("shop", dead_letter_topic="bad")
    totals.add(report(1, 9, TaskReport(task=1, dropped={"words: error": 2}, dead_letters=2)))
    assert "2 dead letters in bad (see: millstream consume bad " in totals.summary()


def test_rows_of_earlier_runs_may_be_missing() -> None:
    totals = RunTotals("shop", has_past=True)
    totals.add(report(1, 1, TaskReport(task=1, rows={"words": 7})))
    assert "rows words at least 7" in totals.line()


def test_at_most_one_line_per_second_is_printed(totals: RunTotals, capsys: pytest.CaptureFixture[str]) -> None:
    with show_progress(totals, "lines") as callbacks:
        callbacks.on_start()
        for number in range(100):
            callbacks.on_batch(report(number, 1))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "shop: waiting for records"
    assert lines[1].startswith("shop: records 1 in")
    assert lines[-1].startswith("shop stopped after")
    assert len(lines) < 10


def test_quiet_prints_nothing(totals: RunTotals, capsys: pytest.CaptureFixture[str]) -> None:
    with show_progress(totals, "quiet") as callbacks:
        callbacks.on_start()
        callbacks.on_batch(report(1, 1))
    assert capsys.readouterr().out == ""


def test_the_summary_is_printed_last_even_after_an_error(totals: RunTotals, capsys: pytest.CaptureFixture[str]) -> None:
    def fail() -> None:
        with show_progress(totals, "live") as callbacks:
            callbacks.on_start()
            raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        fail()
    assert capsys.readouterr().out.splitlines()[-1].startswith("shop stopped after")


def test_there_is_no_summary_if_the_run_was_not_started(totals: RunTotals, capsys: pytest.CaptureFixture[str]) -> None:
    def fail() -> None:
        with show_progress(totals, "lines"):
            raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        fail()
    assert capsys.readouterr().out == ""


LINK = "dashboard: http://127.0.0.1:8484/login?code=" + "x" * 43
"""Longer than the line of a terminal with 60 columns."""


def test_messages_of_a_run_stay_whole_above_its_progress(totals: RunTotals, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = io.StringIO()
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(progress, "Console", lambda: Console(file=terminal, force_terminal=True, width=60))
    with show_progress(totals, "live") as callbacks:
        callbacks.on_start()
        show_message(LINK)
        show_message("the link logs in once")
        callbacks.on_batch(report(1, 1))
        shown = screen(terminal.getvalue())
        assert shown[:2] == [LINK, "the link logs in once"]
        assert shown[2].startswith("shop")
    lines = screen(terminal.getvalue())
    assert lines[:2] == [LINK, "the link logs in once"]
    assert lines[2].startswith("shop stopped after")
    assert lines[3:] == []


def screen(output: str) -> list[str]:
    """Return the lines of a terminal of unlimited width after an output that moves up and erases lines."""
    lines, row = [""], 0
    for part in re.findall(r"\x1b\[[0-9;?]*[A-Za-z]|\n|\r|[^\x1b\n\r]+", output):
        if part == "\n":
            row += 1
            lines += [""] * (row + 1 - len(lines))
        elif part.startswith("\x1b"):
            row -= int(part[2:-1] or 1) if part.endswith("A") else 0
            lines[row] = "" if part == "\x1b[2K" else lines[row]
        elif part != "\r":
            lines[row] += part
    return [line.rstrip() for line in lines if line.strip()]
