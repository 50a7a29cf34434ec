"""Joins by foreign key, as in the tests of Kafka Streams; the conformance cases cover the details."""

from typing import Any

import pytest

from millstream import App, Config, until_time_limit
from millstream.errors import DefinitionError
from millstream.testing import TestDriver


def foreign(row: str) -> str | None:
    return row.partition("|")[2] or None


def driven(verb: str, **settings: Any) -> TestDriver:
    app = App("test", config=Config(**settings))
    left, right = app.table("left", key=str, value=str), app.table("right", key=str, value=str)
    joined = getattr(left, verb)(right, lambda left, right: f"{left}+{right}", on=foreign, name="joined")
    joined.to_stream().to("out")
    return TestDriver(app)


def after(driver: TestDriver, topic: str, key: str, value: str | None, timestamp: int = 0) -> list[tuple[Any, Any]]:
    driver.topic(topic).pipe(value, key=key, timestamp=timestamp)
    return driver.topic("out").read_key_values()


def test_rows_are_joined_whichever_side_arrives_first() -> None:
    with driven("join") as driver:
        assert after(driver, "left", "o1", "pen|u1") == []
        assert after(driver, "right", "u1", "Ann") == [("o1", "pen|u1+Ann")]
        assert after(driver, "left", "o2", "ink|u1") == [("o2", "ink|u1+Ann")]
        assert after(driver, "right", "u1", "Eve") == [("o1", "pen|u1+Eve"), ("o2", "ink|u1+Eve")]
        assert dict(driver.table("joined").items()) == {"o1": "pen|u1+Eve", "o2": "ink|u1+Eve"}


def test_a_deleted_row_deletes_its_results() -> None:
    with driven("join") as driver:
        after(driver, "right", "u1", "Ann")
        after(driver, "left", "o1", "pen|u1")
        assert after(driver, "right", "u1", None) == [("o1", None)]
        after(driver, "right", "u1", "Ann")
        assert after(driver, "left", "o1", None) == [("o1", None)]
        assert after(driver, "left", "o1", None) == []
        assert after(driver, "right", "u1", "Eve") == []


def test_a_row_that_changes_its_foreign_key_leaves_its_old_partner() -> None:
    with driven("join") as driver:
        after(driver, "right", "u1", "Ann")
        after(driver, "right", "u2", "Bob")
        after(driver, "left", "o1", "pen|u1")
        assert after(driver, "left", "o1", "pen|u2") == [("o1", "pen|u2+Bob")]
        assert after(driver, "right", "u1", "Eve") == []
        assert after(driver, "left", "o1", "pen|u3") == [("o1", None)]


def test_a_left_join_keeps_rows_without_partner() -> None:
    with driven("left_join") as driver:
        assert after(driver, "left", "o1", "pen|u1") == [("o1", "pen|u1+None")]
        assert after(driver, "left", "o1", "pen|") == [("o1", "pen|+None")]
        assert after(driver, "left", "o1", "pen|u1") == [("o1", "pen|u1+None")]
        assert after(driver, "right", "u1", "Ann") == [("o1", "pen|u1+Ann")]
        assert after(driver, "right", "u1", None) == [("o1", "pen|u1+None")]
        assert after(driver, "left", "o1", None) == [("o1", None)]


def test_an_inner_join_counts_rows_without_foreign_key() -> None:
    with driven("join") as driver:
        assert after(driver, "left", "o1", "pen|") == []
        assert driver.dropped == {"joined-subscribe: null_foreign_key": 1}


def test_timestamps_are_the_later_of_both_or_that_of_the_right_change() -> None:
    with driven("join") as driver:
        driver.topic("right").pipe("Ann", key="u1", timestamp=10)
        driver.topic("left").pipe("pen|u1", key="o1", timestamp=5)
        driver.topic("right").pipe("Eve", key="u1", timestamp=3)
        assert [record.timestamp for record in driver.topic("out").read()] == [10, 3]


def test_the_result_can_be_joined_with_its_own_left_side() -> None:
    app = App("test")
    left, right = app.table("left", key=str, value=str), app.table("right", key=str, value=str)
    joined = left.join(right, lambda left, right: f"{left}+{right}", on=foreign, name="joined")
    left.join(joined, lambda row, both: f"{row} in {both}").to_stream().to("out")
    with TestDriver(app) as driver:
        after(driver, "right", "u1", "Ann")
        assert after(driver, "left", "o1", "pen|u1") == [("o1", "pen|u1 in pen|u1+Ann")]


def test_a_chain_of_foreign_keys() -> None:
    app = App("test")
    orders, users, cities = (app.table(topic, key=str, value=str) for topic in ("orders", "users", "cities"))
    with_user = orders.join(users, lambda order, user: f"{order}/{user}", on=foreign, name="with_user")
    with_city = with_user.join(cities, lambda row, city: f"{row}/{city}", on=lambda row: row[-1], name="with_city")
    with_city.to_stream().to("out")
    with TestDriver(app) as driver:
        driver.topic("cities").pipe("Rome", key="R")
        driver.topic("users").pipe("Ann R", key="u1")
        driver.topic("orders").pipe("pen|u1", key="o1")
        assert driver.topic("out").read_key_values() == [("o1", "pen|u1/Ann R/Rome")]


def test_functions_that_raise_affect_only_their_row() -> None:
    app = App("test", config=Config(on_error="skip"))
    left, right = app.table("left", key=str, value=str), app.table("right", key=str, value=str)

    def picky(row: str) -> str:
        return {"good": "u1", "odd": "u2"}[row]

    left.join(right, lambda left, right: left + str(int(right)), on=picky).to_stream().to("out")
    with TestDriver(app) as driver:
        after(driver, "right", "u1", "1")
        after(driver, "right", "u2", "x")
        assert after(driver, "left", "o1", "bad") == []
        assert after(driver, "left", "o1", "odd") == []
        assert after(driver, "left", "o2", "good") == [("o2", "good1")]


def test_the_other_side_must_be_a_table() -> None:
    app = App("test")
    with pytest.raises(DefinitionError, match=r"join\(\) expects a table"):
        app.table("left").join(app.stream("right"), max, on=str)  # type: ignore[call-overload]


def test_a_row_that_was_held_back_leaves_no_subscription_behind() -> None:
    """Its old value is that of the last change held back, which the join has never seen."""
    app = App("held")
    left = app.table("left", key=str, value=str).suppress(until_time_limit("5 ms"))
    right = app.table("right", key=str, value=str)
    left.join(right, lambda left, right: f"{left}+{right}", on=foreign, name="joined").to_stream().to("out")
    with TestDriver(app) as driver:
        after(driver, "right", "u1", "Ann")
        after(driver, "left", "o1", "pen|u1", 0)
        assert after(driver, "left", "o1", "pen|u1", 10) == [("o1", "pen|u1+Ann")]
        after(driver, "left", "o1", "pen|u2", 10)
        assert after(driver, "left", "o1", None, 15) == [("o1", None)]
        assert after(driver, "right", "u1", "Eve", 20) == []
