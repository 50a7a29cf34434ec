from examples.sensors import Reading, app, data

from millstream import Windowed
from millstream.testing import TestDriver

MINUTE = 60_000
CLOCK_ERROR = 7_200_000
"""The device's clock is two hours ahead."""


def test_event_time_is_corrected_by_the_gateway_clock() -> None:
    with TestDriver(app) as driver:
        driver.topic("readings").pipe(
            Reading(20.0, MINUTE + CLOCK_ERROR, 3 * MINUTE + CLOCK_ERROR), key="t1", timestamp=3 * MINUTE
        )
        (row,) = driver.table("per_minute").windows("t1")
        assert row.key.start == MINUTE


def test_late_readings_within_the_grace_period_are_counted() -> None:
    with TestDriver(app) as driver:
        readings = driver.topic("readings")
        readings.pipe(Reading(20.0, 0, 0), key="t1", timestamp=0)
        readings.pipe(Reading(20.0, 9 * MINUTE, 9 * MINUTE), key="t2", timestamp=9 * MINUTE)
        readings.pipe(Reading(26.0, 0, 9 * MINUTE), key="t1", timestamp=9 * MINUTE)  # sent after the device was offline
        assert driver.table("per_minute").windows("t1")[0].value == {"low": 20.0, "high": 26.0, "mean": 23.0}


def test_a_hot_minute_is_emitted_after_it_has_closed() -> None:
    with TestDriver(app) as driver:
        readings = driver.topic("readings")
        readings.pipe(Reading(31.0, 0, 0), key="t1", timestamp=0)
        assert driver.topic("too-hot").read() == []
        readings.pipe(Reading(20.0, 0, 0), key="t2", timestamp=11 * MINUTE)
        assert driver.topic("too-hot").read_key_values() == [(Windowed("t1", 0, MINUTE), {"high": 31.0})]


def test_readings_later_than_the_grace_period_go_to_the_late_topic() -> None:
    with TestDriver(app) as driver:
        readings = driver.topic("readings")
        readings.pipe(Reading(20.0, 12 * MINUTE, 12 * MINUTE), key="t2", timestamp=12 * MINUTE)
        readings.pipe(
            Reading(26.0, 0, 12 * MINUTE), Reading(27.0, 2 * MINUTE, 12 * MINUTE), key="t1", timestamp=12 * MINUTE
        )
        assert [late.value["celsius"] for late in driver.topic("readings.late").read()] == [26.0]
        assert [row.key.start for row in driver.table("per_minute").windows("t1")] == [2 * MINUTE]


def test_windows_of_silent_sensors_are_closed_by_the_wall_clock() -> None:
    with TestDriver(app, wall_clock=20 * MINUTE) as driver:
        driver.topic("readings").pipe(Reading(31.0, 0, 0), key="t1", timestamp=20 * MINUTE)
        driver.advance_wall_clock("10 min")
        assert driver.topic("minutes").read() == []
        driver.advance_wall_clock("2 min")
        assert driver.topic("minutes").read_key_values() == [(Windowed("t1", 20 * MINUTE, 21 * MINUTE), {"high": 31.0})]


def test_a_thermometer_offline_for_too_long_loses_only_readings_older_than_the_grace_period() -> None:
    with TestDriver(app) as driver:
        for record in data(start=0):
            driver.topic("readings").pipe(record.value, key=record.key, timestamp=record.timestamp)
        assert {record.key for record in driver.topic("readings.late").read()} == {"t6"}
        minutes = {key: len(driver.table("per_minute").windows(key)) for key in ("t4", "t5", "t6", "t7")}
        assert (minutes["t4"], minutes["t5"], minutes["t7"]) == (60, 60, 41)
        assert 40 < minutes["t6"] < 60
