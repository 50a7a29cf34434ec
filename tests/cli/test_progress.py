import pytest

from millstream.batch.plan import BatchPlan, BatchReport
from millstream.cli.progress import Tally, shown
from millstream.task.report import TaskReport
from millstream.task.work import Range


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def report(number: int, records: int, *tasks: TaskReport, lag: int = 0) -> BatchReport:
    ranges = (Range(topic="lines", partition=0, start=0, stop=records),)
    plan = BatchPlan(number=number, wall_time=0, ranges=ranges)
    return BatchReport(plan=plan, tasks=list(tasks), seconds=0.5, lag={"lines": lag} if lag else {})


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def tally(clock: Clock) -> Tally:
    return Tally("shop", clock=clock)


def test_before_the_first_batch(tally: Tally) -> None:
    assert tally.line() == "shop: records none yet"
    assert tally.summary() == "shop stopped after 0.0 s: 0 batches, 0 records in, 0 out"


def test_batches_add_up(tally: Tally, clock: Clock) -> None:
    clock.now += 5
    tally.add(report(1, 1000, TaskReport(task=1, records_out=3, rows={"words": 7}), lag=4000))
    clock.now += 0.5
    tally.add(report(2, 500, TaskReport(task=1, rows={"words": 8}), TaskReport(task=2, rows={"words": 1})))
    assert tally.facts() == [
        ("records", "1,500 in, 3 out, 1,500/s"),
        ("batches", "2, the last one took 0.50 s"),
        ("lag", "none"),
        ("rows", "words 9"),
    ]
    assert tally.summary() == "shop stopped after 5.5 s: 2 batches, 1,500 records in, 3 out"


def test_the_rate_is_of_the_last_seconds(tally: Tally, clock: Clock) -> None:
    tally.add(report(1, 1000))
    clock.now += 11
    assert tally.rate == 0
    tally.add(report(2, 50))
    assert tally.rate == 5


def test_what_was_dropped_is_told(tally: Tally) -> None:
    tally.add(report(1, 9, TaskReport(task=1, dropped={"words: null_key": 2}, dead_letters=1), lag=1200))
    assert tally.facts()[2:] == [("lag", "lines 1,200"), ("dropped", "words: null_key 2"), ("dead letters", "1")]
    assert tally.summary().endswith("1 batch, 9 records in, 0 out, 1 dead letter")


def test_rows_of_earlier_runs_may_be_missing() -> None:
    tally = Tally("shop", has_past=True)
    tally.add(report(1, 1, TaskReport(task=1, rows={"words": 7})))
    assert "rows words at least 7" in tally.line()


def test_lines_are_not_more_than_one_per_second(tally: Tally, capsys: pytest.CaptureFixture[str]) -> None:
    with shown(tally, "lines") as on_batch:
        for number in range(100):
            on_batch(report(number, 1))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("shop: records 1 in")
    assert lines[-1].startswith("shop stopped after")
    assert len(lines) < 10


def test_quiet_is_quiet(tally: Tally, capsys: pytest.CaptureFixture[str]) -> None:
    with shown(tally, "quiet") as on_batch:
        on_batch(report(1, 1))
    assert capsys.readouterr().out == ""


def test_the_summary_comes_last_also_after_an_error(tally: Tally, capsys: pytest.CaptureFixture[str]) -> None:
    def fail() -> None:
        with shown(tally, "live"):
            raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        fail()
    assert capsys.readouterr().out.splitlines()[-1].startswith("shop stopped after")
