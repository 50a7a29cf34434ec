"""Properties of the built-in aggregations, for arbitrary values."""

from __future__ import annotations

import math
from datetime import timedelta
from decimal import Decimal
from functools import reduce
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.aggregations import (
    QUANTILE_ERROR,
    Aggregation,
    AnyAggregation,
    Collect,
    CollectSet,
    Count,
    CountDistinct,
    Counted,
    First,
    Last,
    Max,
    Mean,
    Min,
    Quantile,
    Several,
    Sum,
    Top,
)
from millstream.foundation.object_codec import OBJECT_CODEC

numbers = st.lists(st.integers(-1000, 1000), min_size=1, max_size=30)
KINDS: list[AnyAggregation] = [
    *(Count(), Sum(), Mean(), Min(), Max(), First(), Last(), Collect(), CollectSet(), CountDistinct()),
    *(Top(3), Quantile(0.9)),
]
EXPECTED: dict[str, Any] = {
    "Count": len,
    "Sum": sum,
    "Mean": lambda values: sum(values) / len(values),
    "Min": min,
    "Max": max,
    "First": lambda values: values[0],
    "Last": lambda values: values[-1],
    "Collect": list,
    "CollectSet": lambda values: list(dict.fromkeys(values)),
    "CountDistinct": lambda values: len(set(values)),
    "Top": lambda values: sorted(values, reverse=True)[:3],
}


def aggregate(aggregation: Aggregation, values: list[Any]) -> Any:
    return reduce(aggregation.add, values, None)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if type(kind).__name__ in EXPECTED], ids=repr)
@given(values=numbers)
def test_adding_values_one_by_one_gives_the_result_of_all_values(kind: Any, values: list[int]) -> None:
    assert kind.finish(aggregate(kind, values)) == EXPECTED[type(kind).__name__](values)


@pytest.mark.parametrize("kind", KINDS, ids=repr)
@given(earlier=numbers, later=numbers)
def test_merging_equals_adding_the_later_values_to_the_earlier_ones(
    kind: Any, earlier: list[int], later: list[int]
) -> None:
    merged = kind.merge(aggregate(kind, earlier), aggregate(kind, later))
    assert kind.finish(merged) == kind.finish(aggregate(kind, earlier + later))


@pytest.mark.parametrize("kind", [kind for kind in KINDS if not kind.cannot_remove], ids=repr)
@given(values=numbers, removed=numbers)
def test_removed_values_do_not_affect_the_result(kind: Any, values: list[int], removed: list[int]) -> None:
    counted = Counted(kind)
    state = aggregate(counted, removed + values)
    for value in removed:
        state = counted.remove(state, value)
    assert counted.finish(state) == kind.finish(aggregate(kind, values))
    assert reduce(counted.remove, values, state) is None


@pytest.mark.parametrize("kind", KINDS, ids=repr)
@given(values=numbers)
def test_adding_does_not_modify_the_aggregate_in_place(kind: Any, values: list[int]) -> None:
    before = aggregate(kind, values)
    encoded = OBJECT_CODEC.encode(before)
    kind.add(before, 5)
    assert OBJECT_CODEC.encode(before) == encoded


@pytest.mark.parametrize("kind", KINDS, ids=repr)
def test_an_aggregate_can_be_encoded_and_decoded(kind: AnyAggregation) -> None:
    state = aggregate(kind, [3, 1, 2, 3])
    assert OBJECT_CODEC.decode(OBJECT_CODEC.encode(state)) == state


@given(
    values=st.lists(st.floats(-1e9, 1e9).filter(lambda x: x == 0 or abs(x) > 1e-9), min_size=1, max_size=200),
    q=st.sampled_from([0.0, 0.1, 0.5, 0.99, 1.0]),
)
def test_the_error_of_a_quantile_is_bounded(values: list[float], q: float) -> None:
    estimate = Quantile(q).finish(aggregate(Quantile(q), values))
    exact = sorted(values)[math.floor(q * (len(values) - 1))]
    assert estimate is not None
    assert abs(estimate - exact) <= QUANTILE_ERROR * abs(exact) * (1 + 1e-9)


def test_a_sketch_is_small() -> None:
    sketch = aggregate(Quantile(0.5), [0.001 * 1.01**n for n in range(1_500)])  # from 1 ms to 50 minutes
    assert len(sketch) < 800
    assert len(OBJECT_CODEC.encode(sketch)) < 5_000


def test_equal_values_of_different_types_are_distinct() -> None:
    assert CollectSet().finish(aggregate(CollectSet(), [1, 1.0, True, "1", 1])) == [1, 1.0, True, "1"]
    assert CountDistinct().finish(aggregate(CountDistinct(), [{"a": 1}, {"a": 1}, [1], (1,)])) == 3


def test_the_first_of_several_equal_values_is_kept() -> None:
    best = Top(2, ranked=True)
    assert best.finish(aggregate(best, [[1, "a"], [2, "b"], [2, "c"], [1, "d"]])) == ["b", "c"]
    assert type(Min().add(1.0, 1)) is float


def test_any_type_that_supports_addition_can_be_summed() -> None:
    assert aggregate(Sum(), [Decimal("0.1"), Decimal("0.2")]) == Decimal("0.3")
    assert Mean().finish(aggregate(Mean(), [timedelta(seconds=1), timedelta(seconds=2)])) == timedelta(seconds=1.5)
    assert repr(aggregate(Sum(), [True])) == "1"
    with pytest.raises(TypeError):
        Sum().add(None, "text")


def test_nan_is_ignored_by_ordered_aggregations() -> None:
    values = [math.nan, 2.0, math.nan, 1.0]
    assert (aggregate(Min(), values), aggregate(Max(), values)) == (1.0, 2.0)
    assert Quantile(1).finish(aggregate(Quantile(1), values)) == pytest.approx(2.0, rel=QUANTILE_ERROR)


def test_each_of_several_aggregations_ignores_its_own_nulls() -> None:
    several = Several(("low", "n", "all"), (Min(), Count(), Collect()), (0, 1, 0))
    state = aggregate(several, [[None, True], [3, True]])
    assert several.finish(state) == {"low": 3, "n": 2, "all": [3]}
    assert several.finish(aggregate(several, [[None, True]])) == {"low": None, "n": 1, "all": []}
    assert several.finish(several.merge(aggregate(several, [[None, True]]), state)) == {"low": 3, "n": 3, "all": [3]}
