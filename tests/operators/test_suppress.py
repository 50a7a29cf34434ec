"""Hold back changes of a table. The conformance cases cover the details."""

from typing import Any

import pytest

from millstream import App, until_time_limit, until_window_closes
from millstream.errors import DefinitionError, SuppressionFullError
from millstream.suppression import Suppression
from millstream.testing import TestDriver
from millstream.windows import session, tumbling


def windowed(until: Suppression) -> App:
    app = App("test")
    counts = app.stream("in", key=str, value=str).group_by_key().windowed_by(tumbling("10 ms", grace="5 ms")).count()
    counts.suppress(until).to_stream(lambda key, _: f"{key.key}@{key.start}").to("out")
    return app


def piped(driver: TestDriver, *records: tuple[str, int]) -> list[tuple[Any, Any]]:
    for key, timestamp in records:
        driver.topic("in").pipe("x", key=key, timestamp=timestamp)
    return driver.topic("out").read_key_values()


def test_a_window_is_forwarded_once_after_its_grace_period() -> None:
    with TestDriver(windowed(until_window_closes())) as driver:
        assert piped(driver, ("b", 0), ("a", 9), ("b", 14), ("b", 1)) == []
        assert piped(driver, ("c", 15)) == [("a@0", 1), ("b@0", 2)]
        assert piped(driver, ("a", 3)) == []  # late


def test_a_session_that_was_merged_into_another_is_left_out() -> None:
    app = App("test")
    sessions = app.stream("in", key=str, value=str).group_by_key().windowed_by(session(gap="10 ms")).count()
    sessions.suppress(until_window_closes()).to_stream(lambda key, _: f"{key.start}-{key.end}").to("out")
    with TestDriver(app) as driver:
        assert piped(driver, ("a", 0), ("a", 8), ("b", 40)) == [("0-8", 2)]


def table(until: Suppression) -> App:
    app = App("test")
    app.table("in", key=str, value=str).suppress(until).to_stream().to("out")
    return app


def test_a_time_limit_starts_at_the_first_change_and_forwards_the_last() -> None:
    with TestDriver(table(until_time_limit("10 ms"))) as driver:
        for key, value, timestamp in (("a", "1", 0), ("a", "2", 6), ("b", "1", 9)):
            driver.topic("in").pipe(value, key=key, timestamp=timestamp)
        assert driver.topic("out").read() == []
        driver.topic("in").pipe("1", key="c", timestamp=10)
        assert [(record.key, record.value, record.timestamp) for record in driver.topic("out").read()] == [
            ("a", "2", 6)
        ]
        driver.topic("in").pipe(None, key="b", timestamp=19)
        assert driver.topic("out").read_key_values() == [("b", None)]


def test_a_full_buffer_emits_early_or_stops_the_app() -> None:
    with TestDriver(table(until_time_limit("1 h", max_records=1))) as driver:
        driver.topic("in").pipe("1", key="a", timestamp=0)
        driver.topic("in").pipe("1", key="b", timestamp=1)
        assert driver.topic("out").read_key_values() == [("a", "1")]
    with TestDriver(table(until_time_limit("1 h", max_bytes=40, when_full="shut_down"))) as driver:
        driver.topic("in").pipe("1", key="a", timestamp=0)
        with pytest.raises(SuppressionFullError, match=r"is full at row 'a' \(1 rows\)"):
            driver.topic("in").pipe("1" * 50, key="a", timestamp=1)


def test_bytes_are_counted_as_rows_are_added_and_removed() -> None:
    with TestDriver(table(until_time_limit("10 ms", max_bytes=40, when_full="shut_down"))) as driver:
        for number in range(20):
            driver.topic("in").pipe("1", key="a", timestamp=number * 10)
        assert len(driver.topic("out").read()) == 10


def test_lookups_see_the_row_that_was_forwarded_last() -> None:
    app = App("test")
    held = app.table("in", key=str, value=str).suppress(until_time_limit("10 ms"))
    app.table("left", key=str, value=str).left_join(held, lambda left, right: f"{left}-{right}").to_stream().to("out")
    with TestDriver(app) as driver:
        driver.topic("in").pipe("1", key="a", timestamp=0)
        driver.topic("in").pipe("tick", key="z", timestamp=10)
        driver.topic("in").pipe("2", key="a", timestamp=11)
        driver.topic("left").pipe("L", key="a", timestamp=12)
        assert driver.topic("out").read_key_values() == [("a", "L-1")]


def test_headers_are_those_of_the_last_change_held_back() -> None:
    with TestDriver(table(until_time_limit("10 ms"))) as driver:
        driver.topic("in").pipe("1", key="a", timestamp=0, headers={"n": b"1"})
        driver.topic("in").pipe("2", key="a", timestamp=1, headers={"n": b"2"})
        driver.topic("in").pipe("x", key="z", timestamp=10, headers={"n": b"3"})
        assert [record.headers for record in driver.topic("out").read()] == [(("n", b"2"),)]


def test_invalid_suppressions_are_rejected() -> None:
    rows = App("test").table("in")
    with pytest.raises(DefinitionError, match="requires a windowed table"):
        rows.suppress(until_window_closes())
    with pytest.raises(DefinitionError, match="max_records=-1 is not valid"):
        until_time_limit("1 s", max_records=-1)
    with pytest.raises(DefinitionError, match="when_full='wait' is unknown"):
        until_time_limit("1 s", when_full="wait")  # type: ignore[arg-type]
