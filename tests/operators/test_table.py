import pytest

from millstream import App
from millstream.errors import UnknownTableError
from millstream.testing import TestDriver


def test_rows_are_set_replaced_and_deleted() -> None:
    app = App("test")
    app.table("users", value=str).to_stream().to("out")
    with TestDriver(app) as driver:
        driver.topic("users").pipe_pairs([("u1", "Ada"), ("u2", "Bob"), ("u1", "Eve"), ("u2", None)])
        assert dict(driver.table("users").items()) == {"u1": "Eve"}
        assert driver.topic("out").read_key_values() == [("u1", "Ada"), ("u2", "Bob"), ("u1", "Eve"), ("u2", None)]


def test_a_record_without_key_is_dropped_and_counted() -> None:
    app = App("test")
    app.table("users", value=str)
    with TestDriver(app) as driver:
        driver.topic("users").pipe("missing")
        assert [report.dropped for report in driver.reports] == [{"users: null_key": 1}]


def test_the_last_record_by_offset_wins_and_the_timestamp_may_decrease() -> None:
    app = App("test")
    app.table("users", value=str).to_stream().to("out")
    with TestDriver(app) as driver:
        driver.topic("users").pipe("new", key="u", timestamp=9)
        driver.topic("users").pipe("old", key="u", timestamp=3)
        assert [(record.value, record.timestamp) for record in driver.topic("out").read()] == [("new", 9), ("old", 3)]
        assert driver.table("users")["u"] == "old"


def test_a_table_has_its_own_name_if_it_is_given_one() -> None:
    app = App("test")
    app.table("users", value=str, name="people")
    with TestDriver(app) as driver:
        driver.topic("users").pipe("Ada", key="u")
        assert driver.table("people")["u"] == "Ada"
        with pytest.raises(UnknownTableError, match="app 'test' has no table 'users'; its tables: people"):
            driver.table("users")
