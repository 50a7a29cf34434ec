"""Every case has the same results as Kafka Streams, record for record."""

from __future__ import annotations

import gzip
from collections import defaultdict
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec
import pytest

from millstream.testing.conformance.cases import Case
from millstream.testing.conformance.replay import replay

DATA = Path(__file__).parent / "data"


class Header(msgspec.Struct):
    """The fields of a case that are needed to collect the tests; a test decodes the others."""

    id: str
    group: str


def headers_and_lines() -> dict[str, list[tuple[str, bytes]]]:
    """Return the id and the line of each case by group.

    Every test process reads all cases. Lines take little memory, and the garbage collector passes over them.
    """
    groups = defaultdict(list)
    decode = msgspec.json.Decoder(Header).decode
    for path in sorted(DATA.glob("*.jsonl.gz")):
        with gzip.open(path) as lines:
            for line in lines:
                header = decode(line)
                groups[header.group].append((header.id, line))
    return dict(sorted(groups.items()))


LINES = headers_and_lines()
IDS = [case for case, _ in chain.from_iterable(LINES.values())]
FIRST = 3
"""The number of cases of each group in ``./dev test --fast``."""

DEVIATIONS = {
    "routing/dynamic-topic/1006": "writes to a topic with an invalid name, which a real broker rejects as we do",
    "errors/cogroup-two-unnamed-repartitions/1000": "Kafka's generated names clash; our derived names do not",
    "errors/null-key-join-with-grace/1000": "Kafka fails with a null pointer; we join the record with null at once",
    "join/foreign-key-inner/1042": "Kafka loses a tombstone that replaces the only version of a row at the same "
    "time, and an older version becomes valid again",
}

OTHER_DROPS = {
    *(f"composed/random-large/{number}" for number in (1011, 1031, 1043)),
    "composed/random-small/1044",
}
"""One record changes both sides of a foreign-key join: Kafka counts the answer to the old row as dropped, and we
replace it with the answer to the new row."""

MIN_CASES = 3_728
"""The number of cases, which must not shrink."""


def parts() -> list[Any]:
    """Return the first cases of each group, then the other cases of each group."""
    first = [pytest.param(group, slice(FIRST), id=group) for group in LINES]
    others = [group for group, lines in LINES.items() if len(lines) > FIRST]
    return first + [
        pytest.param(group, slice(FIRST, None), id=f"{group} (others)", marks=pytest.mark.slow) for group in others
    ]


@pytest.mark.parametrize(("group", "part"), parts())
def test_cases_have_the_results_of_kafka_streams(group: str, part: slice) -> None:
    ids, lines = zip(*LINES[group][part], strict=True)
    outcomes = [replay(msgspec.json.decode(line, type=Case)) for line in lines]
    not_passed = {outcome.case: outcome for outcome in outcomes if outcome.status != "passed"}
    assert [outcome for case, outcome in not_passed.items() if case not in DEVIATIONS] == []
    assert not_passed.keys() == DEVIATIONS.keys() & set(ids), "a deviation is no longer needed"
    other_drops = {outcome.case: outcome.drops for outcome in outcomes if outcome.drops}
    assert other_drops.keys() == OTHER_DROPS & set(ids), other_drops


def test_no_case_is_missing() -> None:
    assert len(IDS) == len(set(IDS)) >= MIN_CASES
    assert set(IDS) >= DEVIATIONS.keys() | OTHER_DROPS
