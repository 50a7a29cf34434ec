"""The same answers on Spark: cases of all groups record by record, and all with a single input as one batch."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.conformance.test_cases import CASES, DEVIATIONS, GROUPS

from millstream.spark.run import stop_spark
from millstream.testing.conformance.on_spark import has_single_input, replay_on_spark, replay_whole, sample

NOT_ON_SPARK = {
    "process/punctuate-wall-clock": "each of its cases moves the wall clock, which is the real one on Spark",
}
"""Groups without a case that can be replayed record by record."""

LEAST_WHOLE = 1_000


@pytest.fixture(scope="module", autouse=True)
def _one_spark() -> Iterator[None]:
    yield
    stop_spark()


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
