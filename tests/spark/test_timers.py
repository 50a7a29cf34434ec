"""Wall-clock timers on Spark: they are called without records."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from tests.spark.apps import ticking
from tests.spark.conftest import Feed

from millstream import Config
from millstream.batch.report import BatchReport
from millstream.batch.trigger import TriggerMode

pytestmark = pytest.mark.spark


@pytest.mark.parametrize(("trigger", "small"), [("auto", 0), ("auto", 1_000), ("realtime", 1_000)])
def test_wall_clock_timers_run_without_records_and_across_stages(
    tmp_path: Path, feed: Feed, trigger: TriggerMode, small: int
) -> None:
    ticking.data_dir = tmp_path
    ticking.config = Config(partitions=2, caching=False, small_batch_records=small)
    feed(ticking, "n", [b"1"] * 10)
    enough = threading.Event()
    reports: list[BatchReport] = []

    def on_batch(report: BatchReport) -> None:
        reports.append(report)
        if sum(report.records_out for report in reports) >= 6:
            enough.set()

    run = ticking.start(trigger=trigger, on_batch=on_batch)
    try:
        assert enough.wait(120)
    finally:
        run.stop()
        run.wait()

    assert sum(report.records_in for report in reports) == 10
    assert sum(1 for report in reports if report.plan.timers and not report.plan.ranges) >= 2
    assert ticking.tables["ticks.seen"]["n"] == 5
    counts = dict(ticking.tables["counts"].items())
    assert sum(counts.values()) == sum(report.records_out for report in reports)
    assert min(counts.values()) >= 1
