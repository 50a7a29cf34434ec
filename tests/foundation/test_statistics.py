"""Statistics, compared with Python's own."""

import math
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.foundation.statistics import Correlation, Histogram, Moments

NUMBERS = st.lists(st.integers(-1000, 1000), min_size=2, max_size=20)


@given(NUMBERS)
def test_moments_are_those_of_all_values(values: list[int]) -> None:
    state = None
    for value in values:
        state = Moments("var_pop").add(state, value)
    assert Moments("var_pop").finish(state) == pytest.approx(statistics.pvariance(values), abs=1e-6)
    assert Moments("stddev_samp").finish(state) == pytest.approx(statistics.stdev(values), abs=1e-4)
    assert Moments("var_samp").remove(state or [], values[0])[0] == len(values) - 1


def test_correlation_of_a_line_is_one_and_of_a_constant_undefined() -> None:
    state = None
    for x in (1.0, 2.0, 5.0):
        state = Correlation().add(state, [x, 2 * x + 1])
    assert state is not None
    assert Correlation().finish(state) == pytest.approx(1.0)
    assert Correlation().finish(Correlation().remove(state, [5.0, 11.0])) == pytest.approx(1.0)
    assert math.isnan(Correlation().finish(Correlation().add(None, [1.0, None])))


def test_a_histogram_counts_up_to_its_limit() -> None:
    histogram, state = Histogram(2), None
    for text in ("a", "b", "a", "c"):
        state = histogram.add(state, text)
    assert state == {"a": 2, "b": 1}
    assert histogram.remove(state, "b") == {"a": 2}
    assert histogram.merge({"a": 1}, {"a": 2, "b": 1}) == {"a": 3, "b": 1}
