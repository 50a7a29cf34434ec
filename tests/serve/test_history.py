from __future__ import annotations

from pathlib import Path

import pytest
from tests.batch.test_history import report, write
from tests.serve.conftest import Served

from millstream.batch.journal import Journal
from millstream.foundation.storage import close_environments
from millstream.serve.history import history_of
from millstream.serve.pages.charts import Series, quantity_axis, trend
from millstream.task.report import TaskReport

MINUTE = 60_000


def task(partition: int, minute: int, size: int, **counts: object) -> TaskReport:
    oldest = minute * MINUTE - 200
    return TaskReport(task=partition, stage="s", partition=partition, oldest=oldest, bytes={"t": size}, **counts)  # type: ignore[arg-type]


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    """Return a journal of an app that ran in the minutes 100, 103 and 104."""
    journal = Journal(tmp_path / "journal", durable=False)
    late = {"t: late": 2}
    write(journal, report(1, task(0, 100, 1000), minute=100), report(2, task(1, 100, 500), minute=100))
    write(journal, report(3, task(0, 103, 3000, dropped=late), minute=103), report(4, task(0, 104, 4000), minute=104))
    return journal


def test_the_minutes_of_an_app_are_evenly_spaced_points(journal: Journal, tmp_path: Path) -> None:
    points = history_of(journal, 60, now=105 * MINUTE + 30_000)
    close_environments(tmp_path)
    assert [point.start // MINUTE for point in points] == [100, 101, 102, 103, 104, 105]
    assert [point.records_in for point in points] == [20, 0, 0, 10, 10, 0]
    assert [point.late for point in points] == [0, 0, 0, 2, 0, 0]
    assert [point.lag for point in points] == [2, None, None, 3, 4, None]
    assert [point.state_bytes for point in points] == [1500, 1500, 1500, 3500, 4500, 4500]
    assert [point.latency_p50 is None for point in points] == [False, True, True, False, False, True]
    assert 150 < (points[0].latency_p50 or 0) < 300
    assert (points[0].seconds, points[-1].seconds) == (60, 30)


def test_a_day_has_few_points_with_the_same_sums(journal: Journal, tmp_path: Path) -> None:
    points = history_of(journal, 24 * 60, now=24 * 60 * MINUTE)
    close_environments(tmp_path)
    assert len(points) <= 121
    assert sum(point.records_in for point in points) == 40
    assert {point.seconds for point in points} == {720}


def test_the_history_is_part_of_the_api_and_of_a_page(served: Served) -> None:
    points = served.get("/api/apps/rides-app/history", minutes=60)
    assert sum(point["records_in"] for point in points) == 121
    assert points[-1]["state_bytes"] > 0
    page = served.page("/history?app=rides-app")
    for title in ("Throughput", "Latency", "Lag", "Late records and dead letters", "Size of state"):
        assert f"<h3>{title}</h3>" in page
    assert "UTC" in page
    assert served.client.get("/history?minutes=1").status_code == 400


def test_a_chart_has_a_gap_where_there_is_no_value(journal: Journal, tmp_path: Path) -> None:
    points = history_of(journal, 60, now=106 * MINUTE)
    close_environments(tmp_path)
    drawn = trend(
        "Lag",
        points,
        (Series("records", [point.lag for point in points]),),
        lambda value: f"{value:.0f} r",
        quantity_axis,
    )
    assert drawn.count("<polyline") == 2  # minute 100, and minutes 103 and 104
    assert 'data-values="-" data-time="01:41"' in drawn
    assert 'data-values="3 r" data-time="01:43"' in drawn
