"""The same results on Spark: cases of each group record by record, and all with a single input topic as one batch."""

from __future__ import annotations

from functools import cache

import pytest
from tests.conformance.test_cases import DATA, DEVIATIONS, LINES

from millstream.testing.conformance.cases import Case, read_cases
from millstream.testing.conformance.on_spark import has_single_input, replay_on_spark, replay_whole, sample

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("conformance on spark")]

NOT_ON_SPARK = {
    "headers/composed": "its case advances the wall clock, which is the real one on Spark",
    "process/punctuate-wall-clock": "each of its cases advances the wall clock, which is the real one on Spark",
}
"""Groups without a case that can be replayed record by record."""

MIN_WHOLE_CASES = 1_000


PARTS = range(4)
"""The cases are split, so that a test stays well within its time limit on a slow machine."""


@cache
def cases() -> list[Case]:
    all_cases = [case for file in sorted(DATA.glob("*.jsonl.gz")) for case in read_cases(file)]
    return [case for case in all_cases if case.id not in DEVIATIONS]


@cache
def sampled() -> list[Case]:
    return sample(cases())


@cache
def with_single_input() -> list[Case]:
    return [case for case in cases() if has_single_input(case)]


def test_enough_cases_are_replayed() -> None:
    assert len(sampled()) >= 60
    assert {case.group for case in sampled()} == set(LINES) - NOT_ON_SPARK.keys()
    assert len(with_single_input()) >= MIN_WHOLE_CASES


@pytest.mark.parametrize("part", PARTS)
def test_cases_of_all_groups_record_by_record(part: int) -> None:
    outcomes = [replay_on_spark(case) for case in sampled()[part :: len(PARTS)]]
    assert [outcome for outcome in outcomes if outcome.status != "passed"] == []


@pytest.mark.parametrize("part", PARTS)
def test_cases_as_one_batch(part: int) -> None:
    chosen = with_single_input()[part :: len(PARTS)]
    outcomes = list(replay_whole(chosen))
    assert [outcome for outcome in outcomes if outcome.status != "passed"] == []
    assert len(outcomes) == len(chosen)
