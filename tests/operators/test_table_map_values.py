import pytest

from millstream import App, Config
from millstream.errors import ProcessingError
from millstream.testing import TestDriver


def test_values_are_replaced_and_tombstones_are_forwarded() -> None:
    app = App("test")
    app.table("in", value=int).map_values(lambda key, n: f"{key}{n}", name="texts").to_stream().to("out")
    with TestDriver(app) as driver:
        driver.topic("in").pipe(1, key="a")
        assert driver.table("texts")["a"] == "a1"
        driver.topic("in").pipe(None, key="a")
        assert driver.topic("out").read_key_values() == [("a", "a1"), ("a", None)]
        assert "a" not in driver.table("texts")


def test_lookups_compute_the_rows_of_a_table_without_a_name() -> None:
    app = App("test")
    prices = app.table("prices", value=int).map_values(lambda n: n * 2).filter(lambda n: n < 100)
    app.stream("orders", value=int).left_join(prices, lambda n, price: [n, price]).to("out")
    with TestDriver(app) as driver:
        driver.topic("prices").pipe_pairs([("pen", 3), ("car", 90)])
        driver.topic("orders").pipe_pairs([("pen", 1), ("car", 1)])
        assert driver.topic("out").read_key_values() == [("pen", [1, 6]), ("car", [1, None])]


def test_the_error_policy_applies_to_a_function_that_raises() -> None:
    app = App("test", config=Config())
    app.table("in", value=int).map_values(lambda n: 1 // n, name="inverse")
    with TestDriver(app) as driver, pytest.raises(ProcessingError, match="node 'inverse' failed"):
        driver.topic("in").pipe(0, key="a")
