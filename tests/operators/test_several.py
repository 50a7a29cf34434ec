"""Several aggregations as generated code do what the aggregations do."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from millstream.aggregations import Count, Max, Mean, Several, Sum
from millstream.operators.several import compiled_adder, compiled_counter, compiled_finisher

SEVERAL = Several(
    ("n", "the total", "high", "mean", "again"), (Count(), Sum(), Max(), Mean(), Count()), (0, 1, 1, 1, 1)
)
ITEMS = st.lists(st.lists(st.none() | st.integers(-9, 9), min_size=2, max_size=2), min_size=1)


@given(ITEMS)
def test_they_add_and_finish_as_aggregations_do(items: list[list[int | None]]) -> None:
    add, finish = compiled_adder(SEVERAL), compiled_finisher(SEVERAL)
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
