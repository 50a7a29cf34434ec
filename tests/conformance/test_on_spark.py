"""The same results on Spark: cases of each group record by record, and all with a single input topic as one batch."""

from __future__ import annotations

import pytest
from tests.conformance.test_cases import DATA, DEVIATIONS, LINES

from millstream.testing.conformance.cases import Case, read_cases
from millstream.testing.conformance.on_spark import has_single_input, replay_on_spark, replay_whole, sample

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("conformance on spark")]

NOT_ON_SPARK = {
    "process/punctuate-wall-clock": "each of its cases advances the wall clock, which is the real one on Spark",
}
"""Groups without a case that can be replayed record by record."""

MIN_WHOLE_CASES = 1_000


def cases() -> list[Case]:
    all_cases = [case for file in sorted(DATA.glob("*.jsonl.gz")) for case in read_cases(file)]
    return [case for case in all_cases if case.id not in DEVIATIONS]


def test_cases_of_all_groups_record_by_record() -> None:
    chosen = sample(cases())
    assert len(chosen) >= 60
    assert {case.group for case in chosen} == set(LINES) - NOT_ON_SPARK.keys()
    outcomes = [replay_on_spark(case) for case in chosen]
    assert [outcome for outcome in outcomes if outcome.status == "failed"] == []
    assert sum(outcome.status == "passed" for outcome in outcomes) >= 60


def test_cases_as_one_batch() -> None:
    chosen = [case for case in cases() if has_single_input(case)]
    outcomes = list(replay_whole(chosen))
    assert [outcome for outcome in outcomes if outcome.status != "passed"] == []
    assert len(outcomes) == len(chosen) >= MIN_WHOLE_CASES
