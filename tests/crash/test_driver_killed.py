"""kill -9 of the process that runs the batches, at random times and at failpoints: results equal the oracle."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.crash.failpoints import COMMITTING_STATES, DRAIN, POINTS
from tests.crash.trials import Mode, Trials, trial_seed

from millstream.log import EmbeddedLog

pytestmark = [pytest.mark.crash, pytest.mark.timeout(600)]


@pytest.mark.parametrize(
    ("mode", "count", "longest"),
    [
        pytest.param("light", int(os.environ.get("MILLSTREAM_TRIALS", "6")), 2.0, id="light"),
        pytest.param("behind", int(os.environ.get("MILLSTREAM_TRIALS", "6")), 2.0, id="behind"),
        pytest.param("spark", 1, 6.0, id="spark", marks=pytest.mark.spark),
    ],
)
def test_killed_at_random_times(tmp_path: Path, mode: Mode, count: int, longest: float) -> None:
    with EmbeddedLog(tmp_path) as log:
        trials = Trials(tmp_path, log, trial_seed(), mode)
        for _ in range(count):
            trials.kill_at_random(longest)
        result = trials.result()
    assert result.is_correct, result.notes
    assert result.records > 0


@pytest.mark.parametrize(
    ("mode", "point"),
    [*(("light", point) for point in POINTS), *(("behind", point) for point in (*POINTS, COMMITTING_STATES))],
)
def test_killed_at_a_failpoint(tmp_path: Path, mode: Mode, point: str) -> None:
    with EmbeddedLog(tmp_path) as log:
        trials = Trials(tmp_path, log, trial_seed(), mode, ["stateless", "two_levels", "tables", "chance"])
        hits = sum(trials.die_at(point) for _ in range(2))
        result = trials.result()
    assert hits > 0, f"{point} was never reached"
    assert result.is_correct, result.notes


@pytest.mark.spark
def test_killed_while_draining(tmp_path: Path) -> None:
    with EmbeddedLog(tmp_path) as log:
        trials = Trials(tmp_path, log, trial_seed(), "spark", ["two_levels"])
        assert trials.die_at(DRAIN, most=1)
        result = trials.result()
    assert result.is_correct, result.notes
