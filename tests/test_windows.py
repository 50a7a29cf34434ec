"""Timestamps that belong to the same windows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream import App
from millstream.errors import DefinitionError
from millstream.windows import TimeWindows, UnlimitedWindows


@given(st.integers(1, 30), st.integers(1, 30), st.integers(0, 200))
def test_timestamps_that_are_alike_belong_to_the_same_windows(size: int, advance: int, timestamp: int) -> None:
    windows = TimeWindows(max(size, advance), min(size, advance), 0)
    first, until = windows.interval(timestamp)
    assert first <= timestamp < until
    assert {tuple(windows.starts(other)) for other in range(first, until)} == {tuple(windows.starts(timestamp))}


def test_an_unlimited_window_divides_time_in_two() -> None:
    windows = UnlimitedWindows(10)
    assert windows.interval(9) == (0, 10)
    assert windows.interval(10) == windows.interval(1000)
    assert list(windows.starts(9)) == []
    assert list(windows.starts(10)) == [10]


def test_windows_longer_than_the_range_of_timestamps_are_one_span() -> None:
    assert TimeWindows(1 << 70, 1 << 70, 0).interval_number(np.array([0, 1 << 62])).tolist() == [0, 0]


def test_a_duration_is_not_accepted_as_a_window() -> None:
    stream = App("a").stream("in", value=str)
    duration: Any = "5 min"
    for define in (
        lambda: stream.group_by_key().windowed_by(duration),
        lambda: stream.group_by_key().cogroup(lambda total, value: total).windowed_by(duration),
    ):
        with pytest.raises(DefinitionError, match=r"windowed_by\(\) expects a window, not '5 min'"):
            define()
    with pytest.raises(DefinitionError, match="within= expects a window, not '5 min'"):
        stream.join(stream, lambda left, right: left, within=duration)
