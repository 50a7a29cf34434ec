from examples.batch_meets_stream import Order, app, last_year

from millstream.testing import TestDriver


def test_revenue_is_summed_and_every_order_is_queued_for_the_lake() -> None:
    with TestDriver(app) as driver:
        driver.topic("orders").pipe(Order("p1", 500), Order("p1", 250), key="p1")
        assert driver.table("revenue")["p1"] == 750
        assert len(driver.topic("batch-meets-stream.to-spark.lake").read()) == 2


def test_generated_history_is_deterministic() -> None:
    assert last_year() == last_year()
