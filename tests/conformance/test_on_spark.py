"""The same answers on Spark: cases of all groups record by record, and all with a single input as one batch."""

from __future__ import annotations

import pytest
from tests.conformance.test_cases import CASES, DEVIATIONS, GROUPS

from millstream.testing.conformance.on_spark import has_single_input, replay_on_spark, replay_whole, sample

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("conformance on spark")]

NOT_ON_SPARK = {
    "process/punctuate-wall-clock": "each of its cases moves the wall clock, which is the real one on Spark",
}
"""Groups without a case that can be replayed record by record."""

LEAST_WHOLE = 1_000


def test_cases_of_all_groups_record_by_record() -> None:
    chosen = sample(case for case in CASES if case.id not in DEVIATIONS)
    assert len(chosen) >= 60
    assert {case.group for case in chosen} == set(GROUPS) - NOT_ON_SPARK.keys()
    outcomes = [replay_on_spark(case) for case in chosen]
    assert [outcome for outcome in outcomes if outcome.status == "failed"] == []
    assert sum(outcome.status == "passed" for outcome in outcomes) >= 60


def test_whole_inputs_as_one_batch() -> None:
    cases = [case for case in CASES if case.id not in DEVIATIONS and has_single_input(case)]
    outcomes = list(replay_whole(cases))
    assert [outcome for outcome in outcomes if outcome.status != "passed"] == []
    assert len(outcomes) == len(cases) >= LEAST_WHOLE
