"""Random topologies have the same results in all ways to run them; a failure shows a small topology and its seed."""

from __future__ import annotations

import os
from typing import Any
from unittest.mock import patch

import pytest

from millstream.operators.build import build
from millstream.operators.runtime import Process
from millstream.testing.fuzz import ways
from millstream.testing.fuzz.__main__ import failure_of
from millstream.testing.fuzz.generating import random_case
from millstream.testing.fuzz.ways import Way, run

TOPOLOGIES = 200
PART = 25
FIRST_SEED = int(os.environ.get("MILLSTREAM_SEED", "1"))


@pytest.mark.parametrize(
    "part", [0, *(pytest.param(part, marks=pytest.mark.slow) for part in range(1, TOPOLOGIES // PART))]
)
def test_random_topologies_have_the_same_results_in_all_ways(part: int) -> None:
    """Columns and single records, batches, execution modes, partitions, restarts and crashes between batches."""
    seeds = range(FIRST_SEED + part * PART, FIRST_SEED + (part + 1) * PART)
    failures = [report for seed in seeds if (report := failure_of(seed, ways=1)) is not None]
    assert failures == [], f"seeds {seeds}"


def test_the_generator_uses_all_verbs() -> None:
    used = {node["op"] for seed in range(400) for node in random_case(seed).topology}
    assert used >= {
        "aggregate", "cogroup", "count", "emit", "filter", "filter_not", "flat_map", "flat_map_values", "global_table",
        "group_by", "group_by_key", "join", "left_join", "map", "map_values", "merge", "outer_join", "process",
        "process_values", "reduce", "repartition", "select_key", "split", "stream", "suppress", "table", "to",
        "to_stream", "to_table", "transform_values", "windowed_by",
    }  # fmt: skip


def test_a_merge_has_the_type_of_values_that_its_streams_have() -> None:
    """With seed 40001379 a stream of text was merged with the numbers of a timer, which text cannot encode."""
    for seed in (40001379, 60001061):  # the second merged text with counts
        assert any(node["op"] == "merge" for node in random_case(seed).topology), seed
        assert failure_of(seed) is None


def test_a_record_that_changes_a_row_twice_before_a_foreign_key_join_has_one_result() -> None:
    """On three partitions the answers for both rows arrived in an order that depended on the partitions."""
    assert failure_of(40002489) is None


def test_a_case_follows_from_its_seed() -> None:
    assert random_case(7) == random_case(7)
    assert random_case(7).topology != random_case(8).topology


@pytest.mark.slow
def test_a_difference_is_found_and_shrunk() -> None:
    """If the path of single records lost every record of key a, the report would show one step with key a."""

    def losing(entry: Process) -> Process:
        def process(key: Any, value: Any, timestamp: int) -> None:
            if key != "a":
                entry(key, value, timestamp)

        return process

    def broken(*arguments: Any) -> Any:
        return {node: entry._replace(process=losing(entry.process)) for node, entry in build(*arguments).items()}

    with patch.object(ways, "build", broken):
        reports = [failure_of(seed, ways=3) for seed in (1, 2, 4)]
    for report in reports:
        assert report is not None
        assert report.count('"pipe"') <= 2  # of up to 16


def test_ways_without_batches_process_each_record_by_itself() -> None:
    case = random_case(3)
    assert run(case, Way()) == run(case, Way(batches=(1,) * len(case.steps), columns=False, restarts=(0, 1)))
