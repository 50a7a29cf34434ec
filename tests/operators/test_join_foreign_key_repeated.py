"""One record changes a left row of a foreign-key join several times: only the row that remains is joined.

The expected results are those of Kafka Streams; tests/testing/fuzz/test_oracle.py asks it for the same topologies.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from millstream import App
from millstream.testing import TestDriver
from millstream.testing.batch_driver import MODES, BatchDriver, Mode


@contextmanager
def driven(verb: str = "join", partitions: int = 1, mode: Mode = "single") -> Iterator[TestDriver]:
    """A row of the left table for each part of a record: its foreign key is its first letter."""
    app = App("test")
    parts = app.stream("in", key=str, value=str).flat_map_values(lambda text: text.split("|"), value=str)
    left, right = parts.to_table(name="left"), app.table("right", key=str, value=str)
    join = getattr(left, verb)
    joined = join(right, lambda left, right: f"{left}+{right}", on=lambda row: row[:1] or None, name="joined")
    joined.to_stream().to("out")
    with BatchDriver(app, partitions=partitions, mode=mode) as driver:
        for key in "ab":
            driver.topic("right").pipe(f"r{key}", key=key, timestamp=1)
        yield driver


def after(driver: TestDriver, value: str, timestamp: int) -> list[Any]:
    driver.topic("in").pipe(value, key="k", timestamp=timestamp)
    return [record.value for record in driver.topic("out").read()]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("partitions", [1, 3, 8])
def test_there_is_one_result_on_any_number_of_partitions_in_any_mode(partitions: int, mode: Mode) -> None:
    """The foreign keys of the rows in between belong to other tasks, whose answers may arrive in any order."""
    with driven("join", partitions, mode) as driver:
        assert after(driver, "b|c|d|e|f|g|a", 5) == ["a+ra"]
        assert after(driver, "g|f|e|d|c", 6) == [None]
        assert after(driver, "d|b", 7) == ["b+rb"]


@pytest.mark.parametrize("verb", ["join", "left_join"])
def test_a_row_that_gets_its_value_again_is_joined_each_time(verb: str) -> None:
    with driven(verb) as driver:
        assert after(driver, "a|a", 5) == ["a+ra", "a+ra"]
        assert after(driver, "b|a|b", 6) == ["b+rb", "b+rb"]


def test_rows_in_between_leave_no_subscriptions_behind() -> None:
    with driven() as driver:
        after(driver, "a|b|c", 5)
        for key in "ab":
            driver.topic("right").pipe("new", key=key, timestamp=6)
        assert driver.topic("out").read_key_values() == []
        driver.topic("right").pipe("rc", key="c", timestamp=7)
        assert driver.topic("out").read_key_values() == [("k", "c+rc")]


def test_a_left_join_keeps_only_the_row_that_remains() -> None:
    with driven("left_join") as driver:
        assert after(driver, "a||b", 5) == ["b+rb"]
        assert after(driver, "a|", 6) == ["+None"]
        assert after(driver, "||", 7) == ["+None", "+None", "+None"]
        assert after(driver, "|c", 8) == ["c+None"]


@pytest.mark.parametrize("last", ["a||c", "|", "|c", "cc|c"])
def test_the_joined_row_is_deleted_if_the_row_that_remains_has_no_partner(last: str) -> None:
    """Kafka Streams leaves a joined row behind in some of these cases (docs/adr/0071)."""
    with driven() as driver:
        after(driver, "b", 5)
        assert after(driver, last, 6) == [None]
        assert driver.table("joined").get("k") is None


def test_several_records_of_a_batch_are_joined_each_for_itself() -> None:
    with driven() as driver:
        with driver.holding():
            for timestamp, value in enumerate(["a|b", "b|a", "c|b"], start=5):
                driver.topic("in").pipe(value, key="k", timestamp=timestamp)
                driver.topic("in").pipe(value, key="other", timestamp=timestamp)
        results = [(record.key, record.value, record.timestamp) for record in driver.topic("out").read()]
    for key in ("k", "other"):
        assert [row[1:] for row in results if row[0] == key] == [("b+rb", 5), ("a+ra", 6), ("b+rb", 7)]


def test_results_have_the_headers_of_their_record() -> None:
    headers = [(("n", str(number).encode()),) for number in range(3)]
    with driven() as driver:
        with driver.holding():
            for number in range(3):
                driver.topic("in").pipe("b|a", key=f"k{number}", timestamp=5 + number, headers=headers[number])
        assert [record.headers for record in driver.topic("out").read()] == headers
