import pytest

from millstream import App
from millstream.testing import TestDriver


def test_a_row_that_no_longer_matches_becomes_a_tombstone() -> None:
    app = App("test")
    app.table("in", value=int, name="rows").filter(lambda n: n > 1, name="kept").to_stream().to("out")
    with TestDriver(app) as driver:
        driver.topic("in").pipe(2, 1, key="a")
        assert driver.topic("out").read_key_values() == [("a", 2), ("a", None)]
        assert dict(driver.table("kept").items()) == {}


def test_no_tombstone_is_sent_for_a_row_that_never_matched_if_the_old_row_is_known() -> None:
    app = App("test")
    app.table("in", value=int, name="rows").filter(lambda n: n > 1).to_stream().to("out")
    with TestDriver(app) as driver:
        driver.topic("in").pipe(0, key="a")
        assert driver.topic("out").read() == []


def test_the_tombstone_is_sent_if_the_old_row_is_not_known_as_in_kafka_streams() -> None:
    app = App("test")
    app.table("in", value=int).filter(lambda n: n > 1).to_stream().to("out")
    with TestDriver(app) as driver:
        driver.topic("in").pipe(0, key="a")
        assert driver.topic("out").read_key_values() == [("a", None)]


@pytest.mark.parametrize(("name", "expected"), [(None, [("a", None)]), ("joined", [])])
def test_a_join_by_foreign_key_keeps_old_rows_for_a_filter_only_with_a_name(name: str | None, expected: object) -> None:
    app = App("test")
    owners, pets = app.table("owners", value=str), app.table("pets", value=str)
    joined = pets.join(owners, lambda pet, owner: f"{pet} of {owner}", on=lambda pet: pet, name=name)
    joined.filter(lambda row: row != "").to_stream().to("out")
    with TestDriver(app) as driver:
        driver.topic("pets").pipe("x", "y", key="a")  # the answer to the second row is a tombstone
        assert driver.topic("out").read_key_values() == expected


def test_the_function_is_not_called_for_tombstones() -> None:
    app = App("test")
    app.table("in", value=int).filter_not(lambda n: n > 1).to_stream().to("out")
    with TestDriver(app) as driver:
        driver.topic("in").pipe(1, None, key="a")
        assert driver.topic("out").read_key_values() == [("a", 1), ("a", None)]
