"""Random topologies give the same results on Spark, on any partitions and in any execution mode, as record by record.

The test driver computes what is expected; ``guarantees.py`` says where partitions and batches may change it. Random
topologies in other ways, without Spark: tests/testing/fuzz.
"""

from __future__ import annotations

import os

import pytest

from millstream.testing.batch_driver import Mode
from millstream.testing.conformance.on_spark import replay_whole
from millstream.testing.fuzz.checking import with_expectation
from millstream.testing.fuzz.generating import random_case

pytestmark = pytest.mark.spark

FIRST_SEED = int(os.environ.get("MILLSTREAM_SEED", "101"))
TOPOLOGIES = 40
MIN_COMPARABLE = 5
SETTINGS: list[tuple[int, Mode]] = [(1, "single"), (1, "resident"), (4, "parallel"), (4, "resident")]


@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_spark_gives_the_same_results_as_the_test_driver(setting: tuple[int, Mode]) -> None:
    seeds = range(FIRST_SEED, FIRST_SEED + TOPOLOGIES)
    cases = [with_expectation(random_case(seed, in_order=True)) for seed in seeds]
    outcomes = list(replay_whole(cases, *setting))
    assert [outcome for outcome in outcomes if outcome.status not in {"passed", "not comparable"}] == [], (
        f"seeds {seeds}"
    )
    assert sum(outcome.status == "passed" for outcome in outcomes) >= MIN_COMPARABLE
