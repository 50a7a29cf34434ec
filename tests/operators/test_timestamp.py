from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from millstream import App, device_clock
from millstream.config import Config
from millstream.errors import DefinitionError, ProcessingError
from millstream.testing import TestDriver


class Reading(msgspec.Struct):
    at: datetime
    sent: datetime
    received: int = 50_000


@pytest.mark.parametrize(
    ("extract", "expected"),
    [
        (lambda value: value["at"], 1_500),
        (lambda value: value["at"] + 0.9, 1_500),
        (lambda key, value: value["at"] + len(key), 1_501),
        (lambda key, value, context: context.timestamp + 1, 43),
        (lambda key, value, context: context.offset + int(dict(context.headers)["at"]), 77),
        (lambda value: datetime(1970, 1, 1, 0, 0, 2, tzinfo=UTC), 2_000),
    ],
)
def test_event_time_may_be_computed_from_the_record(extract: Any, expected: int) -> None:
    app = App("test")
    app.stream("n", timestamp=extract).to("out")
    with TestDriver(app) as driver:
        driver.topic("n").pipe({"at": 1_500}, key="k", timestamp=42, headers={"at": b"77"})
        assert [record.timestamp for record in driver.topic("out").read()] == [expected]


def without_time(computed: Any, **settings: Any) -> App:
    """Return an app whose records have their value as timestamp, except 2, which has ``computed``."""
    app = App("test", config=Config(on_error="dead_letter"))
    app.stream("n", value=int, timestamp=lambda value: computed if value == 2 else value, **settings).to("out")
    return app


@pytest.mark.parametrize("computed", [-1, None, float("nan"), -0.5 * 10])
def test_by_default_a_record_without_a_valid_timestamp_fails(computed: object) -> None:
    with TestDriver(without_time(computed)) as driver:
        driver.topic("n").pipe(1)
        with pytest.raises(ProcessingError, match=r'record n\[0\]@1 has an invalid timestamp: -\d; on_invalid="skip"'):
            driver.topic("n").pipe(2)


def test_records_without_a_valid_timestamp_can_be_skipped_and_are_counted() -> None:
    with TestDriver(without_time(None, on_invalid="skip")) as driver:
        driver.topic("n").pipe(1, 2)
        assert [(report.dropped, report.records_in) for report in driver.reports] == [({"n: invalid_timestamp": 1}, 1)]
        driver.topic("n").pipe(3)
        assert driver.topic("out").read_values() == [1, 3]


def test_records_without_a_valid_timestamp_can_get_the_latest_of_their_partition() -> None:
    with TestDriver(without_time(-1, on_invalid="partition_time")) as driver:
        driver.topic("n").pipe(7, 5, 2, 9, 2)
        assert [record.timestamp for record in driver.topic("out").read()] == [7, 5, 7, 9, 9]


def test_the_latest_time_of_a_partition_is_not_that_of_another() -> None:
    app = App("test")
    app.stream("a", "b", value=int, timestamp=lambda n: n, on_invalid="partition_time").to("out")
    with TestDriver(app) as driver:
        driver.topic("a").pipe(7)
        driver.topic("a").pipe(-1)
        with pytest.raises(
            ProcessingError, match=r"record b\[0\]@0 .*no earlier record of its partition has a valid one"
        ):
            driver.topic("b").pipe(-1)


def test_the_error_policy_applies_to_a_timestamp_function_that_raises_or_returns_no_time() -> None:
    for computed in ("soon", object()):
        with TestDriver(without_time(computed)) as driver:
            driver.topic("n").pipe(1, 2)
            assert [(report.dropped, report.dead_letters) for report in driver.reports] == [({"n: error": 1}, 1)]
            driver.topic("n").pipe(3)
            assert driver.topic("out").read_values() == [1, 3]


def test_a_record_with_a_negative_timestamp_is_rejected() -> None:
    app = App("test")
    app.stream("n", value=int).to("out")
    with TestDriver(app) as driver, pytest.raises(ProcessingError, match=r"record n\[0\]@0 .*invalid timestamp: -5"):
        driver.topic("n").pipe(1, timestamp=-5)


def test_the_wall_clock_can_be_event_time() -> None:
    app = App("test")
    app.stream("n", value=int, timestamp="wall_clock").to("out")
    with TestDriver(app) as driver:
        driver.advance_wall_clock("5 s")
        driver.topic("n").pipe(1, timestamp=42)
        assert [record.timestamp for record in driver.topic("out").read()] == [5_000]


def test_the_append_time_of_the_log_can_be_event_time() -> None:
    app = App("test")
    app.stream("n", value=int, timestamp="append").to("out")
    with TestDriver(app) as driver:
        driver.advance_wall_clock("5 s")
        driver.topic("n").pipe(1, timestamp=42)
        assert [record.timestamp for record in driver.topic("out").read()] == [5_000]


@pytest.mark.parametrize(("setting", "value"), [("timestamp", "sun"), ("on_invalid", "pray")])
def test_unknown_settings_are_rejected(setting: str, value: Any) -> None:
    with pytest.raises(DefinitionError, match=f"{setting}='{value}' is unknown"):
        App("test").stream("n", **{setting: value})


@pytest.mark.parametrize("typed", [False, True])
def test_the_clock_of_a_device_is_corrected(typed: bool) -> None:
    app = App("test")
    clock = device_clock(occurred="at", sent=lambda value: value.sent if typed else value["sent"], received="received")
    app.stream("n", value=Reading if typed else None, timestamp=clock).to("out")
    reading = Reading(at=datetime(2001, 1, 1, tzinfo=UTC), sent=datetime(2001, 1, 1, 0, 0, 1, tzinfo=UTC))
    with TestDriver(app) as driver:
        driver.topic("n").pipe(reading if typed else {"at": 1_000, "sent": 2_000, "received": 50_000}, timestamp=1)
        assert [record.timestamp for record in driver.topic("out").read()] == [49_000]


def test_results_have_the_computed_timestamp() -> None:
    app = App("test")
    app.stream("n", value=int, timestamp=lambda n: n).group_by(lambda _: "all").count().to_stream().to("out")
    with TestDriver(app) as driver:
        driver.topic("n").pipe(50, 20, 70)
        assert [record.timestamp for record in driver.topic("out").read()] == [50, 50, 70]
