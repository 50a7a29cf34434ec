from millstream import App, Windowed, session, tumbling
from millstream.tables.rows import Row
from millstream.tables.windows import WindowTableReader
from millstream.testing import TestDriver
from millstream.windows import Windows


def counted(windows: Windows, *records: tuple[str, int], final: bool = False) -> TestDriver:
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


def places(rows: list[Row]) -> list[tuple[str, int]]:
    return [(row.key.key, row.key.start) for row in rows]


RECORDS = (("b", 0), ("a", 1_000), ("a", 2_000), ("b", 3_000))


def test_windows_of_a_key_are_found_by_their_start() -> None:
    with counted(tumbling("1 s", grace="1 min"), *RECORDS) as driver:
        table = table_of(driver)
        found = table.window("a", 1_000)
        assert found is not None
        assert (found.key, found.value) == (Windowed("a", 1_000, 2_000), 1)
        assert table.window("a", 0) is None
        assert places(table.windows("a", start=1_000, stop=1_999)) == [("a", 1_000)]
        assert places(table.windows("a", reverse=True)) == [("a", 2_000), ("a", 1_000)]


def test_windows_of_several_keys_come_by_key_within_a_segment_of_time() -> None:
    with counted(tumbling("1 s", grace="1 min"), *RECORDS) as driver:
        table = table_of(driver)
        all_of_them = [("a", 1_000), ("a", 2_000), ("b", 0), ("b", 3_000)]
        assert places(list(table.windows_of_all())) == all_of_them
        assert places(list(table.windows_of_all(reverse=True))) == all_of_them[::-1]
        assert places(list(table.windows_of_all("b", start=1, stop=3_000))) == [("b", 3_000)]
        assert places(list(table.windows_of_all("a", "a"))) == all_of_them[:2]


def test_final_results_come_by_time() -> None:
    with counted(tumbling("1 s", grace="1 min"), *RECORDS, final=True) as driver:
        by_time = [("b", 0), ("a", 1_000), ("a", 2_000), ("b", 3_000)]
        assert places(list(table_of(driver).windows_of_all())) == by_time


def test_sessions_are_found_by_when_they_ended_and_began() -> None:
    records = (("a", 0), ("a", 500), ("a", 5_000), ("b", 9_000))
    with counted(session(gap="1 s", grace="1 min"), *records) as driver:
        table = table_of(driver)
        assert places(table.sessions("a", earliest_end=500, latest_start=4_999)) == [("a", 0)]
        assert places(table.sessions("a", earliest_end=501)) == [("a", 5_000)]
        assert places(table.sessions("a", reverse=True)) == [("a", 5_000), ("a", 0)]
        assert places(list(table.sessions_of_all("a", "b", earliest_end=5_000))) == [("a", 5_000), ("b", 9_000)]
        assert table[Windowed("a", 0, 500)] == 2
