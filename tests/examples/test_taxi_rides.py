from datetime import UTC, datetime

from examples.taxi_rides import TaxiRide, app

from millstream.testing import TestDriver


def ride(vendor: int, amount: float, minute: int = 0) -> TaxiRide:
    return TaxiRide("r1", vendor, datetime(2026, 1, 1, 8, minute, tzinfo=UTC), amount, 7)


def test_trips_are_counted_per_vendor() -> None:
    with TestDriver(app) as driver:
        driver.topic("rides").pipe(ride(1, 10.0), ride(2, 10.0), ride(1, 10.0))

        assert dict(driver.table("trips_per_vendor").items()) == {1: 2, 2: 1}
        assert driver.topic("trips-per-vendor").read_key_values() == [("1", 1), ("2", 1), ("1", 2)]


def test_rides_are_routed_by_amount() -> None:
    with TestDriver(app) as driver:
        driver.topic("rides").pipe(ride(1, 39.99), ride(2, 40.0))

        assert _amounts(driver, "rides.high_amount") == [40.0]
        assert _amounts(driver, "rides.low_amount") == [39.99]


def test_event_time_is_the_pickup_time() -> None:
    with TestDriver(app) as driver:
        driver.topic("rides").pipe(ride(1, 50.0, minute=1), timestamp=0)

        (record,) = driver.topic("rides.high_amount").read()
        assert record.timestamp == datetime(2026, 1, 1, 8, 1, tzinfo=UTC).timestamp() * 1000


def _amounts(driver: TestDriver, topic: str) -> list[float]:
    return [ride.total_amount for ride in driver.topic(topic).read_values()]
