from examples.batch_meets_stream import Order, app, last_year

from millstream.testing import TestDriver


def test_revenue_adds_up_and_every_order_waits_for_the_lake() -> None:
    with TestDriver(app) as driver:
        driver.topic("orders").pipe(Order("p1", 500), Order("p1", 250), key="p1")
        assert driver.table("revenue")["p1"] == 750
        assert len(driver.topic("batch-meets-stream.to-spark.lake").read()) == 2


def test_the_past_is_the_same_for_a_seed() -> None:
    assert last_year() == last_year()
