from datetime import UTC, datetime
from typing import Any

import pytest

from millstream import App
from millstream.config import Config
from millstream.errors import SerdeError
from millstream.testing import TestDriver


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


@pytest.mark.parametrize("found", [-1, None, "soon"])
def test_a_record_without_a_time_is_set_aside(found: object) -> None:
    app = App("test")
    app.stream("n", value=int, timestamp=lambda value: found if value == 2 else value).to("out")
    with TestDriver(app) as driver:
        driver.topic("n").pipe(1, 2)
        assert [(one.dropped, one.dead_letters) for one in driver.reports] == [({"n: error": 1}, 1)]
        driver.topic("n").pipe(3)
        assert driver.topic("out").read_values() == [1, 3]


def test_a_record_whose_own_timestamp_is_negative_is_refused() -> None:
    app = App("test", config=Config(on_decode_error="fail"))
    app.stream("n", value=int).to("out")
    with TestDriver(app) as driver, pytest.raises(SerdeError, match=r"record n\[0\]@0 .*its timestamp is -5"):
        driver.topic("n").pipe(1, timestamp=-5)


def test_results_carry_the_computed_time() -> None:
    app = App("test")
    app.stream("n", value=int, timestamp=lambda n: n).group_by(lambda _: "all").count().to_stream().to("out")
    with TestDriver(app) as driver:
        driver.topic("n").pipe(50, 20, 70)
        assert [record.timestamp for record in driver.topic("out").read()] == [50, 50, 70]
