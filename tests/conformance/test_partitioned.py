"""Cases on several partitions, in all execution modes, have the results that Kafka Streams guarantees there."""

from __future__ import annotations

from itertools import chain
from typing import Any

import msgspec
import pytest
from tests.conformance.test_cases import DEVIATIONS, LINES

from millstream.testing.batch_driver import MODES
from millstream.testing.conformance.cases import Case, Expectation
from millstream.testing.conformance.guarantees import Guarantee, guarantee_of
from millstream.testing.conformance.partitioned import PARTITIONS, Setting, draw, replay_partitioned, settings_of

EACH = 75
"""One of so many cases is replayed here; ``python -m millstream.testing.conformance --partitions`` replays all."""


@pytest.mark.parametrize(
    "partitions", [PARTITIONS[0], *(pytest.param(number, marks=pytest.mark.slow) for number in PARTITIONS[1:])]
)
def test_a_sample_of_cases_has_the_guaranteed_results(partitions: int) -> None:
    lines = list(chain.from_iterable(LINES.values()))[partitions::EACH]
    cases = [msgspec.json.decode(line, type=Case) for case, line in lines if case not in DEVIATIONS]
    outcomes = [replay_partitioned(case, setting) for case in cases for setting in settings_of(case, partitions)]
    assert [outcome for outcome in outcomes if outcome.status == "failed"] == []
    assert sum(outcome.status == "passed" for outcome in outcomes) >= len(cases) * 0.7


def case_of(*nodes: dict[str, Any], steps: list[list[Any]], expect: list[list[Any]]) -> Case:
    expected = Expectation(steps=[[list(record) for record in expect]])
    return Case(
        id="case", group="", topology=list(nodes), steps=[{"pipe": step} for step in steps], expect=expected
    )  # fmt: skip


STREAM = {"id": "s", "op": "stream", "topic": "in"}
OUT = {"op": "to", "topic": "out", "id": "out"}


def counted(*, in_order: bool = True, key: str = "first_char") -> Case:
    """Counts by the first letter: one shuffle."""
    steps: list[list[Any]] = [["in", "a", "xa", 1], ["in", "b", "xb", 2 if in_order else 1], ["in", "c", "yc", 3]]
    return case_of(
        STREAM,
        {"id": "g", "op": "group_by", "in": "s", "fn": key},
        {"id": "n", "op": "count", "in": "g"},
        {"id": "t", "op": "to_stream", "in": "n"},
        {**OUT, "in": "t"},
        steps=steps,
        expect=[["out", "x", 1, 1], ["out", "x", 2, 2], ["out", "y", 1, 3]],
    )


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("partitions", PARTITIONS)
def test_results_of_a_key_are_those_of_the_case(partitions: int, large: bool, mode: Any) -> None:
    outcome = replay_partitioned(counted(), Setting(partitions, large, mode))
    assert (outcome.status, outcome.differences) == ("passed", ())


def test_a_wrong_result_of_a_key_is_a_difference() -> None:
    right = counted()
    wrong = msgspec.structs.replace(right, expect=Expectation(steps=[[["out", "x", 2, 1], *right.expect.steps[0][1:]]]))
    outcome = replay_partitioned(wrong, Setting(3, False, "single"))
    assert outcome.status == "failed"
    assert "key \"x\" has [['x', 1, 1], ['x', 2, 2]], expected [['x', 2, 1], ['x', 2, 2]]" in outcome.differences[0]


def reason(case: Case, partitions: int, *, large: bool) -> str:
    guarantee = guarantee_of(case, partitions, large=large)
    assert isinstance(guarantee, str)
    return guarantee


def test_the_order_of_records_with_equal_timestamps_from_several_partitions_is_open() -> None:
    assert "merged by time" in reason(counted(in_order=False), 3, large=True)
    assert isinstance(guarantee_of(counted(in_order=False), 1, large=True), Guarantee)
    assert isinstance(guarantee_of(counted(in_order=False), 3, large=False), Guarantee)


def test_stream_time_behind_a_shuffle_is_that_of_a_task() -> None:
    case = counted()
    windowed = {"id": "w", "op": "windowed_by", "in": "g", "window": "tumbling", "size_ms": 5, "grace_ms": 0}
    nodes = [*case.topology[:2], windowed, {**case.topology[2], "in": "w"}, *case.topology[3:]]
    case = msgspec.structs.replace(case, topology=nodes)
    assert "stream time" in reason(case, 3, large=False)
    assert isinstance(guarantee_of(case, 1, large=False), Guarantee)


def test_invalid_timestamps_depend_on_the_records_that_share_a_partition() -> None:
    case = counted()
    source = {**case.topology[0], "timestamp": "value_field:1", "on_invalid": "partition_time"}
    case = msgspec.structs.replace(case, topology=[source, *case.topology[1:]])
    assert "invalid timestamp" in reason(case, 3, large=False)
    assert isinstance(guarantee_of(case, 1, large=False), Guarantee)


def test_a_single_sub_topology_is_compared_with_each_partition_alone() -> None:
    """Its tasks share nothing, so stream time is that of the partition, and lateness too."""
    case = counted()
    nodes = [
        STREAM,
        {"id": "g", "op": "group_by_key", "in": "s"},
        {"id": "w", "op": "windowed_by", "in": "g", "window": "tumbling", "size_ms": 5, "grace_ms": 0},
        {**case.topology[2], "in": "w"},
        *case.topology[3:],
    ]
    case = msgspec.structs.replace(case, topology=nodes)
    guarantee = guarantee_of(case, 3, large=True)
    assert isinstance(guarantee, Guarantee)
    assert guarantee.by_partition
    assert replay_partitioned(case, Setting(3, True, "parallel")).status == "passed"


def test_a_topic_that_tasks_write_with_changed_keys_has_no_order() -> None:
    nodes = [STREAM, {"id": "k", "op": "select_key", "in": "s", "fn": "first_char"}, {**OUT, "in": "k"}]
    guarantee = guarantee_of(msgspec.structs.replace(counted(), topology=nodes), 3, large=True)
    assert isinstance(guarantee, Guarantee)
    assert not guarantee.is_ordered("out", frozenset(["out"]))


def test_cases_are_drawn_until_enough_of_them_are_comparable() -> None:
    cases = [
        msgspec.structs.replace(counted(in_order=number % 3 != 0), id=f"case {number}") for number in range(30)
    ]  # on several partitions, equal timestamps have no order
    drawn = draw(cases, 3, 8, seed=1)
    comparable = [isinstance(guarantee_of(case, 3, large=True), Guarantee) for case in drawn]
    assert (sum(comparable), comparable[-1]) == (8, True)
    assert drawn == draw(cases, 3, 8, seed=1) != draw(cases, 3, 8, seed=2)
    assert len(draw(cases, 3, 100, seed=1)) == len(cases)
