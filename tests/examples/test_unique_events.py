from examples.unique_events import Event, app

from millstream.testing import TestDriver


def test_an_event_is_forwarded_once_an_hour_and_duplicates_are_reported_every_minute() -> None:
    with TestDriver(app) as driver:
        events = driver.topic("events")
        for minute, number in ((0, "7"), (1, "7"), (2, "8"), (59, "7"), (61, "7")):
            events.pipe(Event(number, "opened"), key="door", timestamp=minute * 60_000)

        unique = [(record.value.id, record.timestamp // 60_000) for record in driver.topic("events.unique").read()]
        assert unique == [("7", 0), ("8", 2), ("7", 61)]

        driver.advance_wall_clock("1 min")
        driver.advance_wall_clock("1 min")
        assert driver.topic("events.repeated").read_key_values() == [("door", 2)]
