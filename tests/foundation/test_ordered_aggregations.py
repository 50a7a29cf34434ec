"""Aggregations that keep some of the values."""

from typing import Any

import pytest

from millstream.aggregations import Aggregation
from millstream.foundation.ordered_aggregations import Attr, CollectUpTo, Earliest, Latest, TopDistinct

BOXED = [[value] for value in (3, None, 1, 3)]


def added(aggregation: Aggregation, values: list[Any]) -> Any:
    state = None
    for value in values:
        state = aggregation.add(state, value)
    return state


@pytest.mark.parametrize(
    ("aggregation", "values", "result"),
    [
        (Latest(), [1, 2, 3], 3),
        (Latest(2), [1, 2, 3], [2, 3]),
        (Latest(2, nulls=True), BOXED, [1, 3]),
        (Earliest(), [1, 2, 3], 1),
        (Earliest(2), [1, 2, 3], [1, 2]),
        (Earliest(nulls=True), [[None], [1]], None),
        (CollectUpTo(3), [1, 1, 2, 2], [1, 1, 2]),
        (CollectUpTo(9, distinct=True), [1, 1, 2, 2], [1, 2]),
        (CollectUpTo(9, nulls=True), BOXED, [3, None, 1, 3]),
        (TopDistinct(2), [1, 5, 5, 3], [5, 3]),
        (Attr(), [[1], [1]], 1),
        (Attr(), [[1], [2]], None),
    ],
)
def test_the_result(aggregation: Aggregation, values: list[Any], result: Any) -> None:
    assert aggregation.finish(added(aggregation, values)) == result
    for cut in range(1, len(values)):
        merged = aggregation.merge(added(aggregation, values[:cut]), added(aggregation, values[cut:]))
        assert aggregation.finish(merged) == result


@pytest.mark.parametrize("aggregation", [CollectUpTo(9, nulls=True), Attr()])
def test_a_removed_value_has_no_effect(aggregation: Aggregation) -> None:
    state = aggregation.remove(added(aggregation, [[1], [2]]), [1])
    assert aggregation.finish(state) == aggregation.finish(added(aggregation, [[2]]))


@pytest.mark.parametrize("aggregation", [Latest(), Latest(2), Earliest(2), CollectUpTo(2), TopDistinct(2), Attr()])
def test_nothing_was_added(aggregation: Aggregation) -> None:
    assert aggregation.finish(None) in (None, [])
