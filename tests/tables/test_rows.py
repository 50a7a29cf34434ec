from collections.abc import Iterator

import pytest

from millstream import App
from millstream.errors import UnknownTableError
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


def test_a_plain_table_refuses_look_ups_of_windows_and_versions(driver: TestDriver) -> None:
    table = driver.table("rows")
    for look_up in (table.windows, table.windows_of_all):
        with pytest.raises(UnknownTableError, match=r"table 'rows' has no windows; use get\(\), range\(\) or scan\(\)"):
            look_up("a")
    with pytest.raises(UnknownTableError, match="has no windows"):
        table.window("a", 0)
    for look_up_as_of in (table.row_as_of, table.get_as_of):
        with pytest.raises(UnknownTableError, match="table 'rows' has no history; keep one with history="):
            look_up_as_of("a", 0)
    with pytest.raises(UnknownTableError, match="has no history"):
        table.versions("a")
