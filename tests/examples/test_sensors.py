from examples.sensors import Reading, app

from millstream.testing import TestDriver

MINUTE = 60_000
WRONG = 7_200_000
"""The clock of the device is two hours ahead."""


def test_event_time_is_corrected_by_the_clock_that_received() -> None:
    with TestDriver(app) as driver:
        driver.topic("readings").pipe(Reading(20.0, MINUTE + WRONG, 3 * MINUTE + WRONG), key="t1", timestamp=3 * MINUTE)
        (row,) = driver.table("per_minute").windows("t1")
        assert row.key.start == MINUTE


def test_a_late_batch_still_counts() -> None:
    with TestDriver(app) as driver:
        readings = driver.topic("readings")
        readings.pipe(Reading(20.0, 0, 0), key="t1", timestamp=0)
        readings.pipe(Reading(20.0, 9 * MINUTE, 9 * MINUTE), key="t2", timestamp=9 * MINUTE)
        readings.pipe(Reading(26.0, 0, 9 * MINUTE), key="t1", timestamp=9 * MINUTE)  # it was offline
        assert driver.table("per_minute").windows("t1")[0].value == {"low": 20.0, "high": 26.0, "mean": 23.0}


def test_a_hot_minute_is_told_once_it_is_closed() -> None:
    with TestDriver(app) as driver:
        readings = driver.topic("readings")
        readings.pipe(Reading(31.0, 0, 0), key="t1", timestamp=0)
        assert driver.topic("too-hot").read() == []
        readings.pipe(Reading(20.0, 0, 0), key="t2", timestamp=11 * MINUTE)
        assert driver.topic("too-hot").read_key_values() == [("t1", {"high": 31.0})]
