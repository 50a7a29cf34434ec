from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.durations import milliseconds
from millstream.errors import DefinitionError


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("0 s", 0),
        ("500 ms", 500),
        ("10s", 10_000),
        ("1 sec", 1_000),
        ("2 seconds", 2_000),
        ("5 min", 300_000),
        ("5 mins", 300_000),
        ("1 minute", 60_000),
        ("1.5 h", 5_400_000),
        ("2 hours", 7_200_000),
        ("7 d", 604_800_000),
        ("1 week", 604_800_000),
        ("  3  days ", 259_200_000),
        (timedelta(hours=1), 3_600_000),
        (timedelta(milliseconds=1, microseconds=999), 1),
    ],
)
def test_durations_are_parsed(written: str | timedelta, expected: int) -> None:
    assert milliseconds(written) == expected


@pytest.mark.parametrize(
    "invalid",
    [
        "",
        "5",
        "min",
        "5 lightyears",
        "-5 s",
        "5 S",
        "1e3 s",
        "5 min 3 s",
        "1,5 s",
        "٣ s",
        "5 ss",
        "9" * 400 + " d",
        5,
        None,
    ],
)
def test_invalid_durations_are_rejected(invalid: Any) -> None:
    with pytest.raises(DefinitionError, match="is not a duration; write"):
        milliseconds(invalid)


@given(st.integers(0, 10**12))
def test_text_and_timedelta_agree(count: int) -> None:
    assert milliseconds(f"{count} ms") == milliseconds(timedelta(milliseconds=count)) == count
