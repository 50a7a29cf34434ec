"""Tumbling windows.

time      0        10        20        30
windows   [---------)[---------)[---------)
records   a@1 a@9   a@10
"""

from millstream import App, Windowed, tumbling
from millstream.testing import TestDriver


def counting(grace: str = "0 ms") -> App:
    app = App("test")
    counts = app.stream("in", value=str).group_by_key().windowed_by(tumbling("10 ms", grace=grace)).count(name="counts")
    counts.to_stream(lambda window, _: f"{window.key}@{window.start}").to("out")
    return app


def piped(app: App, *records: tuple[str | None, int]) -> list[tuple[str, int]]:
    with TestDriver(app) as driver:
        for key, timestamp in records:
            driver.topic("in").pipe("x", key=key, timestamp=timestamp)
        return driver.topic("out").read_key_values()


def test_a_record_belongs_to_the_window_that_starts_at_or_before_it() -> None:
    assert piped(counting(), ("a", 1), ("a", 9), ("a", 10)) == [("a@0", 1), ("a@0", 2), ("a@10", 1)]


def test_a_late_record_is_dropped_and_counted() -> None:
    with TestDriver(counting(grace="5 ms")) as driver:
        for timestamp in (1, 14, 2, 15, 3):  # the window [0, 10) closes when stream time has reached 15
            driver.topic("in").pipe("x", key="a", timestamp=timestamp)
        assert driver.topic("out").read_key_values() == [("a@0", 1), ("a@10", 1), ("a@0", 2), ("a@10", 2)]
        assert driver.dropped == {"counts: late": 1}


def test_records_of_any_key_advance_stream_time_but_not_those_without_key() -> None:
    assert piped(counting(), ("a", 1), (None, 50), ("a", 2)) == [("a@0", 1), ("a@0", 2)]
    assert piped(counting(), ("a", 1), ("b", 50), ("a", 2)) == [("a@0", 1), ("b@50", 1)]


def test_null_values_count() -> None:
    with TestDriver(counting()) as driver:
        driver.topic("in").pipe(None, key="a", timestamp=1)
        assert driver.topic("out").read_values() == [1]


def test_the_table_has_windows_as_keys() -> None:
    with TestDriver(counting()) as driver:
        driver.topic("in").pipe("x", "x", key="a", timestamp=5)
        table = driver.table("counts")
        assert dict(table.items()) == {Windowed("a", 0, 10): 2}
        assert table[Windowed("a", 0, 10)] == 2
