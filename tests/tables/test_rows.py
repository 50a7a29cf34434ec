from collections.abc import Iterator

import pytest

from millstream import App
from millstream.testing import TestDriver


@pytest.fixture(params=[1, 3])
def driver(request: pytest.FixtureRequest) -> Iterator[TestDriver]:
    app = App("test")
    app.table("rows", value=int, name="rows")
    with TestDriver(app, partitions=request.param) as driver:
        for key, value in (("b", 2), ("a", 1), ("ab", 3), ("c", 4), ("d", 5)):
            driver.topic("rows").pipe(value, key=key)
        driver.topic("rows").pipe(None, key="d")
        yield driver


def test_a_range_includes_its_bounds_and_is_in_key_order_across_partitions(driver: TestDriver) -> None:
    table = driver.table("rows")
    assert [row.key for row in table.range("ab", "c")] == ["ab", "b", "c"]
    assert [row.key for row in table.range("ab", "c", reverse=True)] == ["c", "b", "ab"]
    assert [row.value for row in table.range()] == [1, 3, 2, 4]
    assert [row.key for row in table.range(last="ab")] == ["a", "ab"]
    assert [row.key for row in table.range("b")] == ["b", "c"]
    assert list(table.range("c", "a")) == []


def test_rows_can_be_selected_by_key_prefix(driver: TestDriver) -> None:
    table = driver.table("rows")
    assert [row.key for row in table.prefix("a")] == ["a", "ab"]
    assert [row.key for row in table.prefix("a", reverse=True)] == ["ab", "a"]
    assert list(table.prefix("x")) == []
