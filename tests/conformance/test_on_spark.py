"""The same results on Spark: cases of each group record by record, and cases on several partitions as one batch."""

from __future__ import annotations

from functools import cache

import pytest
from tests.conformance.test_cases import DATA, DEVIATIONS, LINES

from millstream.testing.batch_driver import Mode
from millstream.testing.conformance.cases import Case, read_cases
from millstream.testing.conformance.on_spark import replay_on_spark, replay_whole, sample

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("conformance on spark")]

NOT_ON_SPARK = {
    "headers/composed": "its case advances the wall clock, which is the real one on Spark",
    "process/punctuate-wall-clock": "each of its cases advances the wall clock, which is the real one on Spark",
}
"""Groups without a case that can be replayed record by record."""

PARTS = range(4)
"""The cases are split, so that a test stays well within its time limit on a slow machine."""

SETTINGS: list[tuple[int, Mode]] = [(1, "single"), (1, "parallel"), (3, "parallel"), (3, "resident"), (8, "parallel")]
MIN_COMPARABLE = 100


@cache
def cases() -> list[Case]:
    all_cases = [case for file in sorted(DATA.glob("*.jsonl.gz")) for case in read_cases(file)]
    return [case for case in all_cases if case.id not in DEVIATIONS]


@cache
def sampled() -> list[Case]:
    return sample(cases())


def test_cases_of_all_groups_are_replayed_record_by_record() -> None:
    assert len(sampled()) >= 60
    assert {case.group for case in sampled()} == set(LINES) - NOT_ON_SPARK.keys()


@pytest.mark.parametrize("part", PARTS)
def test_cases_of_all_groups_record_by_record(part: int) -> None:
    outcomes = [replay_on_spark(case) for case in sampled()[part :: len(PARTS)]]
    assert [outcome for outcome in outcomes if outcome.status != "passed"] == []


@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_cases_as_one_batch_have_the_guaranteed_results(setting: tuple[int, Mode]) -> None:
    chosen = cases()[SETTINGS.index(setting) :: 2 * len(SETTINGS)]
    outcomes = list(replay_whole(chosen, *setting))
    assert [outcome for outcome in outcomes if outcome.status not in {"passed", "not comparable"}] == []
    assert sum(outcome.status == "passed" for outcome in outcomes) >= MIN_COMPARABLE
