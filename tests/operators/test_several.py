"""Several aggregations as generated code do what the aggregations do."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.task.outcomes import Row, outcome, workspace

from millstream import App, Config, count_distinct_of, hopping, session, sliding
from millstream.aggregations import CollectSet, Count, CountDistinct, Max, Mean, Several, Sum
from millstream.operators.several import compiled_adder, compiled_counter, compiled_finisher

SEVERAL = Several(
    ("n", "the total", "high", "mean", "again"), (Count(), Sum(), Max(), Mean(), Count()), (0, 1, 1, 1, 1)
)
ITEMS = st.lists(st.lists(st.none() | st.integers(-9, 9), min_size=2, max_size=2), min_size=1)


@given(ITEMS)
def test_they_add_and_finish_as_aggregations_do(items: list[list[int | None]]) -> None:
    add, finish = compiled_adder(SEVERAL, in_place=False), compiled_finisher(SEVERAL)
    states: list[Any] | None = None
    expected: list[Any] | None = None
    for values in items:
        states, expected = add(states, values), SEVERAL.add(expected, values)
        assert states == expected
        assert finish(states) == SEVERAL.finish(expected)


@given(st.integers(1, 5))
def test_they_count_as_aggregations_do(records: int) -> None:
    counts = Several(("a", "b"), (Count(), Count()), (0, 0))
    count = compiled_counter(counts)
    states: list[Any] | None = None
    expected: list[Any] | None = None
    for _ in range(records):
        before, states, expected = states, count("key", states, None), counts.count(expected, None)
        assert states == expected
        assert states is not before, "the old state is still needed"


def test_without_aggregations_there_is_an_empty_result() -> None:
    assert compiled_finisher(Several((), (), ()))([]) == {}


@given(st.lists(st.sampled_from([1, True, 1.0, "1", "a", (1, "a")]), min_size=1))
def test_sets_that_grow_in_place_are_the_same(items: list[Any]) -> None:
    several = Several(("n", "all"), (CountDistinct(), CollectSet()), (0, 0))
    add = compiled_adder(several, in_place=True)
    states: list[Any] | None = None
    expected: list[Any] | None = None
    for item in items:
        states, expected = add(states, [item]), several.add(expected, [item])
        assert several.finish(states) == several.finish(expected)


WINDOWS = {
    "none": None,
    "hopping": hopping("10 ms", every="5 ms", grace="5 ms"),
    "sliding": sliding("10 ms", grace="5 ms"),
    "session": session(gap="3 ms", grace="5 ms"),
}


@pytest.mark.parametrize("caching", [True, False])
@pytest.mark.parametrize("windows", WINDOWS)
def test_an_app_that_ends_at_an_error_has_the_results_of_one_that_continues(windows: str, caching: bool) -> None:
    """The first changes sets in place, the second needs them as they were before an error."""
    rows: list[Row] = [(b"k%d" % (number % 2), b"%d" % (number * number % 11), number) for number in range(60)]
    outcomes = []
    for on_error in ("fail", "skip"):
        app = App("distinct", config=Config(on_error=on_error, output_prefix="distinct-"))
        groups: Any = app.stream("n", value=int).group_by_key()
        groups = groups if WINDOWS[windows] is None else groups.windowed_by(WINDOWS[windows])
        groups.agg(n=count_distinct_of(), name="counts").to_stream(lambda key, _: str(key)).to("out")
        with workspace({"n": rows}) as space:
            outcomes.append(outcome(app, space, [{"n": (0, 40)}, {"n": (40, 60)}], caching=caching))
    assert outcomes[0] == outcomes[1]
    assert outcomes[0].records_out
