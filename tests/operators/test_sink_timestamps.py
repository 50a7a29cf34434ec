"""``to(timestamp=)``: the time of a record in a topic."""

from millstream import App
from millstream.testing import TestDriver


def test_the_sink_writes_the_computed_time_and_drops_records_without_one() -> None:
    app = App("times")
    app.stream("in", value=int).to("out", timestamp=lambda value: value if value > 0 else None)
    with TestDriver(app) as driver:
        driver.topic("in").pipe(5, 0, 7, timestamp=99)
        assert [(record.value, record.timestamp) for record in driver.topic("out").read()] == [(5, 5), (7, 7)]
        assert driver.dropped.total() == 1
        assert next(iter(driver.dropped)).endswith(": invalid_timestamp")
