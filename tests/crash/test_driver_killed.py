"""kill -9 of the process that runs the batches, at random moments and at named ones: all laws hold."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.crash.arena import Arena, Mode, seeded
from tests.crash.failpoints import DRAIN, POINTS, SETTLING

from millstream.log import EmbeddedLog

pytestmark = [pytest.mark.crash, pytest.mark.timeout(600)]


@pytest.mark.parametrize(
    ("mode", "trials", "longest"),
    [
        pytest.param("light", int(os.environ.get("MILLSTREAM_TRIALS", "6")), 2.0, id="light"),
        pytest.param("behind", int(os.environ.get("MILLSTREAM_TRIALS", "6")), 2.0, id="behind"),
        pytest.param("spark", 1, 6.0, id="spark", marks=pytest.mark.spark),
    ],
)
def test_killed_at_random_moments(tmp_path: Path, mode: Mode, trials: int, longest: float) -> None:
    with EmbeddedLog(tmp_path) as log:
        arena = Arena(tmp_path, log, seeded(), mode)
        for _ in range(trials):
            arena.kill_at_random(longest)
        verdict = arena.verdict()
    assert verdict.is_good, verdict.notes
    assert verdict.records > 0


@pytest.mark.parametrize(
    ("mode", "point"), [*(("light", point) for point in POINTS), *(("behind", point) for point in (*POINTS, SETTLING))]
)
def test_killed_at_a_named_moment(tmp_path: Path, mode: Mode, point: str) -> None:
    with EmbeddedLog(tmp_path) as log:
        arena = Arena(tmp_path, log, seeded(), mode, ["stateless", "two_levels", "tables", "chance"])
        hits = sum(arena.die_at(point) for _ in range(2))
        verdict = arena.verdict()
    assert hits > 0, f"{point} never came"
    assert verdict.is_good, verdict.notes


@pytest.mark.spark
def test_killed_while_it_drains(tmp_path: Path) -> None:
    with EmbeddedLog(tmp_path) as log:
        arena = Arena(tmp_path, log, seeded(), "spark", ["two_levels"])
        assert arena.die_at(DRAIN, most=1)
        verdict = arena.verdict()
    assert verdict.is_good, verdict.notes
