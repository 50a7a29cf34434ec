"""Timers on the wall clock on real Spark: they are called although no record comes."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from tests.spark.apps import ticking
from tests.spark.conftest import Feed

from millstream import Config
from millstream.batch.pace import Trigger
from millstream.batch.report import BatchReport

pytestmark = pytest.mark.spark


@pytest.mark.parametrize(("trigger", "small"), [("auto", 0), ("auto", 1_000), ("realtime", 1_000)])
def test_wall_clock_timers_run_without_records_and_across_stages(
    tmp_path: Path, feed: Feed, trigger: Trigger, small: int
) -> None:
    ticking.data_dir = tmp_path
    ticking.config = Config(partitions=2, caching=False, small_batch_records=small)
    feed(ticking, "n", [b"1"] * 10)
    enough = threading.Event()
    batches: list[BatchReport] = []

    def note(report: BatchReport) -> None:
        batches.append(report)
        if sum(one.records_out for one in batches) >= 6:
            enough.set()

    run = ticking.start(trigger=trigger, on_batch=note)
    try:
        assert enough.wait(120)
    finally:
        run.stop()
        run.wait()

    assert sum(one.records_in for one in batches) == 10
    assert sum(1 for one in batches if one.plan.timers and not one.plan.ranges) >= 2
    assert ticking.tables["ticks.seen"]["n"] == 5
    told = dict(ticking.tables["told"].items())
    assert sum(told.values()) == sum(one.records_out for one in batches)
    assert min(told.values()) >= 1
