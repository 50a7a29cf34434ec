"""Random topologies have the results of the real Kafka Streams, record for record."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle
from typing import Any

import msgspec
import pytest
from tests.conformance.test_cases import LINES
from tests.testing.fuzz.oracle import Oracle, oracle
from tests.testing.fuzz.profiles import RECORDED, case_of

from millstream.plan.stateless import Repartition
from millstream.testing.conformance.cases import Case, Expectation
from millstream.testing.conformance.replay import do_step
from millstream.testing.conformance.topology import Topology
from millstream.testing.driver import TestDriver

pytestmark = [pytest.mark.kafka, pytest.mark.xdist_group("kafka streams oracle")]

TOPOLOGIES = 40
VARIATIONS = 20
FIRST_SEED = 3000
MAX_EDGES = 2


@pytest.fixture(scope="module")
def kafka() -> Iterator[Oracle]:
    with oracle() as running:
        yield running


def test_random_topologies_have_the_results_of_kafka_streams(kafka: Oracle) -> None:
    seeds = range(FIRST_SEED, FIRST_SEED + TOPOLOGIES)
    cases = [case for seed in seeds if edges_of(case := case_of("plain", seed)) <= MAX_EDGES]
    assert [report for case in cases if (report := kafka.failure_of(case)) is not None] == [], f"seeds {seeds}"


def test_variations_of_recorded_cases_have_the_results_of_kafka_streams(kafka: Oracle) -> None:
    seeds = range(FIRST_SEED, FIRST_SEED + VARIATIONS)
    cases = [case_of(kind, seed) for seed, kind in zip(seeds, cycle(RECORDED), strict=False)]
    assert [report for case in cases if (report := kafka.failure_of(case)) is not None] == [], f"seeds {seeds}"


def test_a_variation_follows_from_its_seed() -> None:
    assert case_of("recorded", 1) == case_of("recorded", 1)
    assert case_of("recorded", 1).steps != case_of("recorded", 2).steps


@pytest.mark.parametrize(("sender", "is_empty"), [("n0", True), ("n1", False)])
def test_dead_letters_are_complete_also_where_kafka_streams_has_released_the_record(
    kafka: Oracle, sender: str, is_empty: bool
) -> None:
    """A difference on purpose (docs/adr/0100)."""
    nodes: list[dict[str, Any]] = [
        {"id": "n0", "op": "stream", "topic": "in"},
        {"id": "n1", "op": "filter", "in": "n0", "fn": "all"},
        {"id": "n2", "op": "to", "in": sender, "topic": "out"},
        {"id": "n3", "op": "map_values", "in": "n0", "fn": "fail_if_contains:x"},
    ]
    config = {"processing_handler": "continue", "dead_letter_topic": "dead"}
    steps = [{"pipe": ["in", "a", "x", 5]}]
    case = Case(id="dead", group="dead", topology=nodes, steps=steps, expect=Expectation(), config=config)
    (theirs,) = [record[1:4] for record in kafka.ask(case).expect.steps[0] if record[0] == "dead"]
    assert theirs == ([None, None, 5] if is_empty else ["a", "x", 5])
    with TestDriver(Topology(nodes, config).app) as driver:
        do_step(steps[0], driver)
        (ours,) = driver.topic("dead").read_raw()
    assert (ours.key, ours.value, ours.timestamp) == (b"a", b"x", 5)


def test_a_row_that_changes_twice_leaves_no_joined_row_behind(kafka: Oracle) -> None:
    """A difference on purpose (docs/adr/0071): Kafka Streams drops the only answer, since it is for the first change.

    The second change has the same foreign key, which has no row, so it is not answered.
    """
    nodes: list[dict[str, Any]] = [
        {"id": "n0", "op": "stream", "topic": "in"},
        {"id": "n1", "op": "table", "topic": "right"},
        {"id": "n2", "op": "group_by_key", "in": "n0", "name": "first"},
        {"id": "n3", "op": "group_by_key", "in": "n0", "name": "second"},
        {"id": "n4", "op": "cogroup", "in": ["n2", "n3"], "adders": ["latest", "append"]},
        {"id": "n5", "op": "aggregate", "in": "n4", "initial": ""},
        {"id": "n6", "op": "join", "in": ["n5", "n1"], "joiner": "concat", "foreign_key": "first_char", "store": "s"},
    ]
    steps = [{"pipe": record} for record in (["right", "x", "r", 1], ["in", "a", "x", 2], ["in", "a", "y", 3])]
    case = Case(id="twice", group="twice", topology=nodes, steps=steps, expect=Expectation())
    assert kafka.ask(case).expect.stores["s"]["entries"] == [["a", "xx+r", 2]]
    with TestDriver(Topology(nodes, {}).app, one_stream_time=True) as driver:
        for step in steps:
            do_step(step, driver)
        assert driver.table("s").get("a") is None


@pytest.mark.parametrize("verb", ["join", "left_join"])
def test_only_the_row_that_remains_is_joined_if_a_record_changes_it_several_times(kafka: Oracle, verb: str) -> None:
    nodes: list[dict[str, Any]] = [
        {"id": "n0", "op": "stream", "topic": "in"},
        {"id": "n1", "op": "table", "topic": "right"},
        {"id": "n2", "op": "flat_map_values", "in": "n0", "fn": "split_fields"},
        {"id": "n3", "op": "to_table", "in": "n2", "store": "left"},
        {"id": "n4", "op": verb, "in": ["n3", "n1"], "joiner": "concat", "foreign_key": "first_char", "store": "s"},
        {"id": "n5", "op": "to_stream", "in": "n4"},
        {"id": "n6", "op": "to", "in": "n5", "topic": "out"},
    ]
    values = ["b|c|d|e|f|g|a", "g|f|e|d|c", "d|b", "a|a", "b|a|b", "b||a", "a|", "||", "a"]
    steps = [{"pipe": ["right", key, f"r{key}", 1]} for key in "ab"]
    steps += [{"pipe": ["in", "k", value, time]} for time, value in enumerate(values, start=5)]
    outcome = kafka.outcome(Case(id="repeated", group="", topology=nodes, steps=steps, expect=Expectation()))
    assert (outcome.status, outcome.differences) == ("passed", ())


def edges_of(case: Case) -> int:
    """Return the number of shuffles; with many of them the answers take long."""
    return sum(isinstance(node, Repartition) for node in Topology(case.topology, {}).app.plan.nodes)


def test_the_program_answers_cases_as_they_were_answered_before(kafka: Oracle) -> None:
    """The program is our own; the answers of the case files show that it builds topologies as they mean them."""
    groups = ("fuzz/", "cogroup/", "join/table-table", "suppress/time-limit", "window/sliding")
    lines = [line for group, lines in LINES.items() if group.startswith(groups) for line in lines[:3]]
    cases = [msgspec.json.decode(line[1], type=Case) for line in lines]
    for case in cases:
        answered = kafka.ask(case).expect
        assert by_topic(answered.steps) == by_topic(case.expect.steps), case.id


def by_topic(steps: list[list[list[object]]]) -> list[list[list[object]]]:
    return [sorted(step, key=lambda record: str(record[0])) for step in steps]
