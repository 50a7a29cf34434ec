"""The laws of ready aggregations, for any values."""

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
RIGHT: dict[str, Any] = {
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


def kept(aggregation: Aggregation, values: list[Any]) -> Any:
    return reduce(aggregation.add, values, None)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if type(kind).__name__ in RIGHT], ids=repr)
@given(values=numbers)
def test_the_result_is_that_of_all_values_at_once(kind: Any, values: list[int]) -> None:
    assert kind.finish(kept(kind, values)) == RIGHT[type(kind).__name__](values)


@pytest.mark.parametrize("kind", KINDS, ids=repr)
@given(one=numbers, other=numbers)
def test_merging_is_adding_the_values_of_the_later_to_those_of_the_earlier(
    kind: Any, one: list[int], other: list[int]
) -> None:
    merged = kind.merge(kept(kind, one), kept(kind, other))
    assert kind.finish(merged) == kind.finish(kept(kind, one + other))


@pytest.mark.parametrize("kind", [kind for kind in KINDS if not kind.stays], ids=repr)
@given(values=numbers, gone=numbers)
def test_what_is_taken_out_leaves_no_trace(kind: Any, values: list[int], gone: list[int]) -> None:
    counted = Counted(kind)
    state = kept(counted, gone + values)
    for value in gone:
        state = counted.remove(state, value)
    assert counted.finish(state) == kind.finish(kept(kind, values))
    assert reduce(counted.remove, values, state) is None


@pytest.mark.parametrize("kind", KINDS, ids=repr)
@given(values=numbers)
def test_adding_changes_nothing_in_place(kind: Any, values: list[int]) -> None:
    before = kept(kind, values)
    stored = OBJECT_CODEC.encode(before)
    kind.add(before, 5)
    assert OBJECT_CODEC.encode(before) == stored


@pytest.mark.parametrize("kind", KINDS, ids=repr)
def test_what_is_kept_comes_back_from_state(kind: AnyAggregation) -> None:
    state = kept(kind, [3, 1, 2, 3])
    assert OBJECT_CODEC.decode(OBJECT_CODEC.encode(state)) == state


@given(
    values=st.lists(st.floats(-1e9, 1e9).filter(lambda x: x == 0 or abs(x) > 1e-9), min_size=1, max_size=200),
    q=st.sampled_from([0.0, 0.1, 0.5, 0.99, 1.0]),
)
def test_a_quantile_is_as_close_as_it_promises(values: list[float], q: float) -> None:
    found = Quantile(q).finish(kept(Quantile(q), values))
    right = sorted(values)[math.floor(q * (len(values) - 1))]
    assert found is not None
    assert abs(found - right) <= QUANTILE_ERROR * abs(right) * (1 + 1e-9)


def test_a_sketch_is_small() -> None:
    sketch = kept(Quantile(0.5), [0.001 * 1.01**n for n in range(1_500)])  # from 1 ms to 50 minutes
    assert len(sketch) < 800
    assert len(OBJECT_CODEC.encode(sketch)) < 5_000


def test_values_that_python_takes_for_equal_are_told_apart() -> None:
    assert CollectSet().finish(kept(CollectSet(), [1, 1.0, True, "1", 1])) == [1, 1.0, True, "1"]
    assert CountDistinct().finish(kept(CountDistinct(), [{"a": 1}, {"a": 1}, [1], (1,)])) == 3


def test_of_equal_ones_the_first_is_kept() -> None:
    best = Top(2, ranked=True)
    assert best.finish(kept(best, [[1, "a"], [2, "b"], [2, "c"], [1, "d"]])) == ["b", "c"]
    assert type(Min().add(1.0, 1)) is float


def test_sums_are_of_whatever_can_be_added() -> None:
    assert kept(Sum(), [Decimal("0.1"), Decimal("0.2")]) == Decimal("0.3")
    assert Mean().finish(kept(Mean(), [timedelta(seconds=1), timedelta(seconds=2)])) == timedelta(seconds=1.5)
    assert repr(kept(Sum(), [True])) == "1"
    with pytest.raises(TypeError):
        Sum().add(None, "text")


def test_nan_has_no_order() -> None:
    values = [math.nan, 2.0, math.nan, 1.0]
    assert (kept(Min(), values), kept(Max(), values)) == (1.0, 2.0)
    assert Quantile(1).finish(kept(Quantile(1), values)) == pytest.approx(2.0, rel=QUANTILE_ERROR)


def test_several_leave_nulls_out_each_for_itself() -> None:
    both = Several(("low", "n", "all"), (Min(), Count(), Collect()), (0, 1, 0))
    state = kept(both, [[None, True], [3, True]])
    assert both.finish(state) == {"low": 3, "n": 2, "all": [3]}
    assert both.finish(kept(both, [[None, True]])) == {"low": None, "n": 1, "all": []}
    assert both.finish(both.merge(kept(both, [[None, True]]), state)) == {"low": 3, "n": 3, "all": [3]}
