"""Every case that uses only what Millstream has gives what Kafka Streams gave, record for record."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from multiprocessing import get_context
from pathlib import Path

import pytest

from millstream.testing.conformance.cases import read_cases
from millstream.testing.conformance.replay import Outcome, replay

pytestmark = pytest.mark.timeout(900)  # whichever test comes first waits for all cases
DATA = Path(__file__).parent / "data"
CASES = [case for file in sorted(DATA.glob("*.jsonl.gz")) for case in read_cases(file)]
GROUPS = sorted({case.group for case in CASES})

DEVIATIONS = {
    "routing/dynamic-topic/1006": "writes to a topic with an illegal name, which a real broker refuses as we do",
    "errors/cogroup-two-unnamed-repartitions/1000": "Kafka's generated names clash; ours are derived and do not",
    "errors/null-key-join-with-grace/1000": "Kafka stops with a null pointer; we join the record with null at once",
    "join/foreign-key-inner/1042": "Kafka forgets a tombstone that replaces the only version of a row at the same "
    "time, and an older version comes back to life",
}

OTHER_DROPS = {
    *(f"composed/random-large/{number}" for number in (1011, 1031, 1043)),
    "composed/random-small/1044",
}
"""One record changes both sides of a foreign-key join: Kafka counts the answer to the row before as dropped, and we let
the answer to the row after it take its place."""

LEAST = 3_724
"""So many cases pass at least: what works once must not become unsupported in silence."""


@cache
def outcomes_by_group() -> dict[str, list[Outcome]]:
    """Replay all cases, on all cores, since together they take minutes."""
    found: dict[str, list[Outcome]] = {group: [] for group in GROUPS}
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        for case, outcome in zip(CASES, pool.map(replay, CASES, chunksize=30), strict=True):
            found[case.group].append(outcome)
    return found


def outcomes(group: str) -> list[Outcome]:
    return outcomes_by_group()[group]


@pytest.mark.parametrize("group", GROUPS)
def test_cases_of_a_group(group: str) -> None:
    failed = [
        f"{outcome.case}: {'; '.join(outcome.differences)}"
        for outcome in outcomes(group)
        if outcome.status == "failed" and outcome.case not in DEVIATIONS
    ]
    assert failed == []


@pytest.mark.parametrize("group", GROUPS)
def test_drops_are_counted_as_kafka_streams_does(group: str) -> None:
    wrong = {outcome.case: outcome.drops for outcome in outcomes(group) if outcome.drops}
    assert wrong.keys() == {case for case in OTHER_DROPS if case.startswith(f"{group}/")}


def test_enough_cases_are_supported() -> None:
    counts = Counter(outcome.status for group in GROUPS for outcome in outcomes(group))
    assert counts["passed"] >= LEAST, counts


def test_deviations_are_still_needed() -> None:
    failed = {outcome.case for group in GROUPS for outcome in outcomes(group) if outcome.status == "failed"}
    assert failed == DEVIATIONS.keys()
