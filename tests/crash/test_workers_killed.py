"""Python workers die in the middle of a task; the job is run again by us, or the task by Spark: all laws hold."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.crash.arena import Arena, seeded

from millstream.log import EmbeddedLog

pytestmark = [pytest.mark.crash, pytest.mark.spark, pytest.mark.timeout(600)]


@pytest.mark.parametrize(
    ("master", "point"),
    [("local[2]", "after state commit"), ("local[2,4]", "between two outputs")],
    ids=["the batch is run again", "the task is run again by Spark"],
)
def test_a_worker_dies_and_the_app_goes_on_by_itself(tmp_path: Path, master: str, point: str) -> None:
    with EmbeddedLog(tmp_path) as log:
        arena = Arena(tmp_path, log, seeded(), "spark", ["stateless", "two_levels"])
        mark = tmp_path / "hit"
        arena.feeder.feed(1500)
        victim = arena.victim(point=f"{point}:2", mark=str(mark), master=master)
        recovered = victim.has_recovered()
        victim.kill()
        assert (recovered, mark.exists()) == (True, True)
        verdict = arena.verdict()
    assert verdict.is_good, verdict.notes
