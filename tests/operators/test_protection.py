"""Functions may change aggregates in place: no reader sees a partial change, and old values stay what they were."""

from typing import Any

import pytest

from millstream import App, Table, session, sliding, tumbling
from millstream.config import Config
from millstream.testing import TestDriver


def appending(seen: list[int], n: int) -> list[int]:
    """Change the aggregate in place, then fail because the value is bad."""
    seen.append(n)
    if n == 0:
        raise ValueError("a zero")
    return seen


def joined(left: list[int], right: list[int]) -> list[int]:
    left.extend(right)
    return left


@pytest.mark.parametrize("windows", [None, tumbling("1 min"), session(gap="1 min"), sliding("1 min")])
@pytest.mark.parametrize("caching", [False, True])
def test_an_aggregate_changed_in_place_before_an_error_is_restored(windows: Any, caching: bool) -> None:
    app = App("test", config=Config(on_error="skip"))
    grouped = app.stream("n", value=int).group_by_key()
    table: Table
    if windows is None:
        table = grouped.aggregate(list, appending, name="seen")
    else:
        table = grouped.windowed_by(windows).aggregate(list, appending, joined, name="seen")
    table.to_stream().map_values(lambda _key, seen: list(seen)).map(lambda _, seen: ("k", seen)).to("out")
    with TestDriver(app, caching=caching) as driver:
        for number in (1, 0, 2):
            driver.topic("n").pipe(number, key="k", timestamp=100_000)
        assert driver.topic("out").read_values()[-1] == [1, 2]
        assert driver.dropped == {"seen: error": 1}


@pytest.mark.parametrize("caching", [False, True])
def test_groupings_subtract_the_old_value_not_the_changed_one(caching: bool) -> None:
    app = App("test")
    seen = app.stream("n", value=int).group_by_key().aggregate(list, appending, name="seen")
    by_size = seen.group_by(lambda numbers: f"size {len(numbers)}")
    by_size.count(name="sizes").to_stream().to("out")
    with TestDriver(app, caching=caching) as driver:
        driver.topic("n").pipe(1, 2, key="k")
        assert dict(driver.table("sizes").items()) == {"size 1": 0, "size 2": 1}


def test_sliding_windows_do_not_share_aggregates_changed_in_place() -> None:
    app = App("test")
    windows = app.stream("n", value=int).group_by_key().windowed_by(sliding("10 s"))
    windows.aggregate(list, appending, name="seen")
    with TestDriver(app) as driver:
        for number, seconds in ((1, 20), (2, 25), (3, 28)):
            driver.topic("n").pipe(number, key="k", timestamp=seconds * 1_000)
        values = {row.key.start: row.value for row in driver.table("seen").windows("k")}
    assert values == {10_000: [1], 15_000: [1, 2], 18_000: [1, 2, 3], 20_001: [2, 3], 25_001: [3]}
