"""Python workers die during a task; the batch or, by Spark, the task is run again: results equal the oracle."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.crash.trials import Trials, trial_seed

from millstream.log import EmbeddedLog

pytestmark = [pytest.mark.crash, pytest.mark.spark, pytest.mark.timeout(600)]


@pytest.mark.parametrize(
    ("master", "point"),
    [("local[2]", "after state commit"), ("local[2,4]", "between two outputs")],
    ids=["the batch is run again", "the task is run again by Spark"],
)
def test_the_app_recovers_from_the_death_of_a_worker(tmp_path: Path, master: str, point: str) -> None:
    with EmbeddedLog(tmp_path) as log:
        trials = Trials(tmp_path, log, trial_seed(), "spark", ["stateless", "two_levels"])
        mark = tmp_path / "hit"
        trials.feeder.feed(1500)
        victim = trials.victim(point=f"{point}:2", mark=str(mark), master=master)
        recovered = victim.has_recovered()
        victim.kill()
        assert (recovered, mark.exists()) == (True, True)
        result = trials.result()
    assert result.is_correct, result.notes
