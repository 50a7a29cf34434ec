"""Alerts: for each key pending, firing and resolved, in event time."""

from __future__ import annotations

from typing import Any

import pytest

from millstream import App, Config
from millstream.alerts.events import AlertEvent
from millstream.errors import DefinitionError, ProcessingError
from millstream.testing import TestDriver

MIN = 60_000
Event = tuple[str, str | None, int]
"""The key, the status and the time of an event in minutes."""


def events(driver: TestDriver) -> list[Event]:
    records = driver.topic("test.alerts").read()
    return [(r.key, None if r.value is None else r.value.status, r.timestamp // MIN) for r in records]


def pipe(driver: TestDriver, *rows: tuple[str, Any, float]) -> list[Event]:
    for key, value, minute in rows:
        driver.topic("heat").pipe(value, key=key, timestamp=round(minute * MIN))
    return events(driver)


def heat(**options: Any) -> TestDriver:
    app = App("test")
    options.setdefault("when", lambda celsius: celsius > 90)
    app.stream("heat", value=int).alert("hot", **options)
    return TestDriver(app)


def test_an_alert_fires_once_and_is_resolved_once_for_each_key() -> None:
    with heat() as driver:
        assert pipe(driver, ("a", 95, 0), ("b", 20, 0), ("a", 99, 1)) == [("hot/a", "firing", 0)]
        assert pipe(driver, ("b", 91, 2), ("a", 90, 3)) == [("hot/b", "firing", 2), ("hot/a", "resolved", 3)]
        assert pipe(driver, ("a", 92, 4)) == [("hot/a", "firing", 4)]


def test_an_alert_is_resolved_by_its_own_condition() -> None:
    with heat(until=lambda celsius: celsius < 85) as driver:
        assert pipe(driver, ("a", 95, 0), ("a", 88, 1), ("a", 84, 2)) == [
            ("hot/a", "firing", 0),
            ("hot/a", "resolved", 2),
        ]


def test_an_alert_is_pending_until_it_has_lasted() -> None:
    """The condition of a holds from 0 on, that of b ends before it has lasted: a tombstone deletes its event."""
    with heat(lasting="2 min") as driver:
        assert pipe(driver, ("a", 95, 0), ("b", 95, 0)) == [("hot/a", "pending", 0), ("hot/b", "pending", 0)]
        assert pipe(driver, ("b", 20, 1)) == [("hot/b", None, 1)]
        assert pipe(driver, ("b", 20, 5)) == [("hot/a", "firing", 2)], "time passes with records of other keys"
        assert pipe(driver, ("a", 20, 6)) == [("hot/a", "resolved", 6)]


def test_a_condition_that_ends_when_it_would_have_lasted_does_not_fire() -> None:
    with heat(lasting="2 min") as driver:
        assert pipe(driver, ("a", 95, 0), ("a", 20, 2)) == [("hot/a", "pending", 0), ("hot/a", None, 2)]
        assert pipe(driver, ("a", 95, 3), ("a", 20, 6)) == [
            ("hot/a", "pending", 3),
            ("hot/a", "firing", 5),
            ("hot/a", "resolved", 6),
        ]


def test_a_number_of_records_within_a_time_fires_until_they_are_older() -> None:
    """
    minute   0   1   2   3   4   5   6
    records  x   x       x                three within 5 minutes: from 3 on, until the first of them is 5 minutes old
    """
    with heat(count=3, within="5 min") as driver:
        assert pipe(driver, ("a", 95, 0), ("a", 95, 1), ("a", 20, 2)) == []
        assert pipe(driver, ("a", 95, 3)) == [("hot/a", "firing", 3)]
        assert pipe(driver, ("b", 20, 9)) == [("hot/a", "resolved", 5)]
        assert pipe(driver, ("a", 95, 10), ("a", 95, 14), ("a", 95, 15)) == [], "the first is 5 minutes old at 15"
        assert pipe(driver, ("a", 95, 16)) == [("hot/a", "firing", 16)]
        assert pipe(driver, ("a", 95, 18), ("a", 95, 20)) == [], "later records prolong it"
        assert pipe(driver, ("b", 20, 30)) == [("hot/a", "resolved", 21)]


def test_records_out_of_order_are_counted_and_otherwise_ignored() -> None:
    with heat(count=2, within="5 min") as driver:
        assert pipe(driver, ("a", 95, 5), ("a", 95, 3)) == [("hot/a", "firing", 5)]
    with heat() as driver:
        assert pipe(driver, ("a", 20, 5), ("a", 95, 3)) == []


def test_missing_data_resolves_an_alert() -> None:
    with heat(missing_after="10 min") as driver:
        assert pipe(driver, ("a", 95, 0), ("a", 95, 5), ("b", 1, 14)) == [("hot/a", "firing", 0)]
        assert pipe(driver, ("b", 1, 20)) == [("hot/a", "resolved", 15)]


def test_missing_data_can_fire_until_there_is_data_again() -> None:
    with heat(missing_after="10 min", on_missing="fire", labels=lambda celsius: {"unit": "C"}) as driver:
        pipe(driver, ("a", 20, 0), ("b", 20, 9))
        driver.topic("heat").pipe(20, key="b", timestamp=12 * MIN)
        [record] = driver.topic("test.alerts", value=AlertEvent).read()
        event = record.value
        assert (event.id, event.status, event.reason, event.fired) == ("hot/a", "firing", "missing data", 10 * MIN)
        assert (event.summary, event.labels["unit"]) == ("no data from a", "C")
        assert pipe(driver, ("a", 20, 13)) == [("hot/a", "resolved", 13)]


def test_on_the_wall_clock_time_passes_without_records() -> None:
    with heat(lasting="2 min", missing_after="10 min", clock="wall") as driver:
        assert pipe(driver, ("a", 95, 1000)) == [("hot/a", "pending", 0)]
        driver.advance_wall_clock("2 min")
        assert events(driver) == [("hot/a", "firing", 2)]
        driver.advance_wall_clock("1 h")
        assert events(driver) == [("hot/a", "resolved", 10)], "the event has the time at which it was due"


def test_the_format_of_events_is_stable() -> None:
    app = App("test")
    app.stream("heat").alert(
        "hot",
        when=lambda row: row["celsius"] > 90,
        severity="page",
        labels=lambda key, row: {"hall": row["hall"], "sensor": key},
        summary="{key} has {value[celsius]} °C",
    )
    with TestDriver(app) as driver:
        driver.topic("heat").pipe({"celsius": 95, "hall": "A"}, key="s1", timestamp=7)
        driver.topic("heat").pipe({"celsius": 20, "hall": "B"}, key="s1", timestamp=9)
        firing, resolved = driver.topic("test.alerts", value=bytes).read_values()
    labels = b'"labels":{"alertname":"hot","app":"test","key":"s1","severity":"page","hall":"A","sensor":"s1"}'
    rest = b'"summary":"s1 has 95 \xc2\xb0C","value":{"celsius":95,"hall":"A"}}'
    start = b'{"alert":"hot","app":"test","key":"s1","status":'
    assert firing == start + b'"firing",' + labels + b',"since":7,"fired":7,' + rest
    assert resolved == start + b'"resolved",' + labels + b',"since":7,"fired":7,"resolved":9,' + rest


def test_a_table_raises_alerts_and_a_deleted_row_resolves_them() -> None:
    app = App("test")
    app.table("heat", value=int).alert("hot", when=lambda celsius: celsius > 90)
    with TestDriver(app) as driver:
        assert pipe(driver, ("a", 95, 0), ("a", None, 1)) == [("hot/a", "firing", 0), ("hot/a", "resolved", 1)]


def test_a_rekeyed_stream_is_repartitioned_and_null_keys_are_dropped() -> None:
    app = App("test")
    app.stream("heat", value=int).select_key(lambda celsius: None if celsius > 100 else "all").alert(
        "hot", when=lambda celsius: celsius > 90
    )
    with TestDriver(app, partitions=3) as driver:
        assert pipe(driver, ("a", 95, 0), ("b", 99, 1), ("c", 101, 2)) == [("hot/all", "firing", 0)]
        assert driver.dropped == {"hot.alert-repartition: null_key": 1}


def test_an_error_in_a_condition_is_an_error_of_user_code_and_keeps_what_time_has_changed() -> None:
    app = App("test", config=Config(on_error="skip"))
    app.stream("heat", value=int).alert("hot", when=lambda celsius: 1 / celsius > 0, lasting="2 min")
    with TestDriver(app) as driver:
        assert pipe(driver, ("a", 1, 0), ("a", 0, 3), ("a", 1, 4)) == [("hot/a", "pending", 0), ("hot/a", "firing", 2)]
    app.config = Config()
    with TestDriver(app) as driver, pytest.raises(ProcessingError, match=r"hot\.alert"):
        pipe(driver, ("a", 0, 0))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"count": 3}, "only one of count= and within="),
        ({"count": 0, "within": "5 min"}, "count=0"),
        ({"lasting": "0 s"}, "lasting='0 s' is not valid"),
        ({"on_missing": "fire"}, "no missing_after="),
        ({"on_missing": "drop"}, "on_missing='drop' is unknown"),
        ({"clock": "moon"}, "clock 'moon' is unknown"),
        ({"summary": "{key"}, "is not a template"),
        ({"when": 3}, "expects a function"),
    ],
)
def test_wrong_alerts_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(DefinitionError, match=message):
        heat(**options)


def test_keys_that_were_counted_are_forgotten_when_their_records_are_too_old() -> None:
    with heat(count=3, within="5 min") as driver:
        pipe(driver, *((f"k{number}", 95, number / 100) for number in range(50)))
        assert len(list(driver.table("hot.alert.keys").items())) == 50
        assert pipe(driver, ("other", 20, 30)) == []
        assert len(list(driver.table("hot.alert.keys").items())) == 0
        assert pipe(driver, ("k1", 95, 31), ("k1", 95, 32), ("k1", 95, 33)) == [("hot/k1", "firing", 33)]


def test_on_the_wall_clock_a_clock_that_is_set_back_drops_no_record() -> None:
    with heat(clock="wall") as driver:
        driver.wall_clock = 10 * MIN
        assert pipe(driver, ("a", 20, 0)) == []
        driver.wall_clock = 5 * MIN
        assert pipe(driver, ("a", 95, 0)) == [("hot/a", "firing", 10)]
