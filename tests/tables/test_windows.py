import pytest

from millstream import App, Windowed, session, tumbling
from millstream.errors import UnknownTableError
from millstream.tables.rows import Row
from millstream.tables.windows import WindowTableReader
from millstream.testing import TestDriver
from millstream.windows import Windows


def count_records(windows: Windows, *records: tuple[str, int], final: bool = False) -> TestDriver:
    app = App("test")
    grouped = app.stream("n", value=int).group_by_key().windowed_by(windows).emit("final" if final else "updates")
    grouped.count(name="counts", retention="1 h")
    driver = TestDriver(app)
    for key, timestamp in records:
        driver.topic("n").pipe(1, key=key, timestamp=timestamp)
    return driver


def table_of(driver: TestDriver) -> WindowTableReader:
    table = driver.table("counts")
    assert isinstance(table, WindowTableReader)
    return table


def starts(rows: list[Row]) -> list[tuple[str, int]]:
    return [(row.key.key, row.key.start) for row in rows]


RECORDS = (("b", 0), ("a", 1_000), ("a", 2_000), ("b", 3_000))


def test_windows_of_a_key_are_selected_by_start() -> None:
    with count_records(tumbling("1 s", grace="1 min"), *RECORDS) as driver:
        table = table_of(driver)
        row = table.window("a", 1_000)
        assert row is not None
        assert (row.key, row.value) == (Windowed("a", 1_000, 2_000), 1)
        assert table.window("a", 0) is None
        assert starts(table.windows("a", start=1_000, stop=1_999)) == [("a", 1_000)]
        assert starts(table.windows("a", reverse=True)) == [("a", 2_000), ("a", 1_000)]


def test_a_range_of_windows_is_refused_with_the_way() -> None:
    with count_records(tumbling("1 s", grace="1 min"), *RECORDS) as driver:
        refused = r"table 'counts' has windows; use windows\(key\)"
        with pytest.raises(UnknownTableError, match=refused):
            table_of(driver).range()
        with pytest.raises(UnknownTableError, match=refused):
            table_of(driver).prefix("a")


def test_windows_of_several_keys_are_ordered_by_key_within_a_segment() -> None:
    with count_records(tumbling("1 s", grace="1 min"), *RECORDS) as driver:
        table = table_of(driver)
        by_key = [("a", 1_000), ("a", 2_000), ("b", 0), ("b", 3_000)]
        assert starts(list(table.windows_of_all())) == by_key
        assert starts(list(table.windows_of_all(reverse=True))) == by_key[::-1]
        assert starts(list(table.windows_of_all("b", start=1, stop=3_000))) == [("b", 3_000)]
        assert starts(list(table.windows_of_all("a", "a"))) == by_key[:2]


def test_final_results_are_ordered_by_time() -> None:
    with count_records(tumbling("1 s", grace="1 min"), *RECORDS, final=True) as driver:
        by_time = [("b", 0), ("a", 1_000), ("a", 2_000), ("b", 3_000)]
        assert starts(list(table_of(driver).windows_of_all())) == by_time


def test_sessions_are_selected_by_end_and_start() -> None:
    records = (("a", 0), ("a", 500), ("a", 5_000), ("b", 9_000))
    with count_records(session(gap="1 s", grace="1 min"), *records) as driver:
        table = table_of(driver)
        assert starts(table.sessions("a", earliest_end=500, latest_start=4_999)) == [("a", 0)]
        assert starts(table.sessions("a", earliest_end=501)) == [("a", 5_000)]
        assert starts(table.sessions("a", reverse=True)) == [("a", 5_000), ("a", 0)]
        assert starts(list(table.sessions_of_all("a", "b", earliest_end=5_000))) == [("a", 5_000), ("b", 9_000)]
        assert table[Windowed("a", 0, 500)] == 2
