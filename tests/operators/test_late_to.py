"""Late records can be written to a topic, as they arrived and with the reason."""

from typing import Any

import pytest

from millstream import App, hopping, join_window, session, sliding, tumbling
from millstream.config import Config
from millstream.testing import TestDriver

SECONDS = 1_000


@pytest.mark.parametrize(
    ("windows", "missed"),
    [
        (tumbling("10 s"), b"0-10000"),
        (hopping("10 s", every="5 s"), b"0-10000,5000-15000"),
        (sliding("10 s"), b"0-10000"),
        (session(gap="10 s"), b"7000-7000"),
    ],
)
def test_a_late_record_is_written_to_its_topic_once_as_it_arrived(windows: Any, missed: bytes) -> None:
    app = App("test")
    grouped = app.stream("n", value=int).map_values(lambda n: n * 10).group_by_key()
    grouped.windowed_by(windows, late_to="late").count(name="counts")
    with TestDriver(app) as driver:
        driver.topic("n").pipe(1, key="k", timestamp=30 * SECONDS)
        driver.topic("n").pipe(2, key="k", timestamp=7 * SECONDS, headers={"h": b"1"})
        (late,) = driver.topic("late").read()
        assert driver.dropped == {"counts: late": missed.count(b",") + 1}
    assert (late.key, late.value, late.timestamp) == ("k", 2, 7 * SECONDS)
    assert late.headers == (
        ("h", b"1"),
        ("__millstream.late.node", b"counts"),
        ("__millstream.late.windows", missed),
        ("__millstream.late.stream_time", b"30000"),
        ("__millstream.late.topic", b"n"),
        ("__millstream.late.partition", b"0"),
        ("__millstream.late.offset", b"1"),
    )


def test_a_record_that_is_late_for_some_windows_still_counts_in_the_others() -> None:
    app = App("test")
    grouped = app.stream("n", value=int).group_by_key().windowed_by(hopping("10 s", every="5 s"), late_to="late")
    grouped.count(name="counts")
    with TestDriver(app) as driver:
        driver.topic("n").pipe(1, key="k", timestamp=12 * SECONDS)
        driver.topic("n").pipe(1, key="k", timestamp=9 * SECONDS)
        assert [record.headers[1] for record in driver.topic("late").read()] == [
            ("__millstream.late.windows", b"0-10000")
        ]
        assert driver.table("counts").windows("k", start=5_000, stop=5_000)[0].value == 2


def test_after_a_repartition_the_late_record_is_the_re_keyed_one() -> None:
    app = App("test")
    grouped = app.stream("n", value=int).group_by(lambda n: f"key {n}").windowed_by(tumbling("1 s"), late_to="late")
    grouped.reduce(max)
    with TestDriver(app) as driver:
        driver.topic("n").pipe(1, timestamp=5 * SECONDS)
        driver.topic("n").pipe(2, timestamp=0)
        assert driver.topic("late").read_key_values() == [("key 2", 2)]


def test_joins_send_records_that_are_too_late_for_a_partner() -> None:
    app = App("test")
    left, right = app.stream("left", value=str), app.stream("right", value=str)
    left.join(right, lambda left, right: left + right, within=join_window("10 s"), late_to="late").to("out")
    with TestDriver(app) as driver:
        driver.topic("left").pipe("a", key="k", timestamp=100 * SECONDS)
        driver.topic("left").pipe("b", key="k", timestamp=90 * SECONDS)
        driver.topic("left").pipe("c", key="k", timestamp=10 * SECONDS)
        driver.topic("right").pipe("d", key="k", timestamp=95 * SECONDS)
        assert [record.value for record in driver.topic("late").read_raw()] == [b"c"]
        assert driver.topic("out").read_values() == ["bd", "ad"]


def test_a_late_record_that_is_too_large_with_its_headers_is_a_dead_letter() -> None:
    app = App("test", config=Config(on_error="dead_letter"))
    app.stream("n", value=str).group_by_key().windowed_by(tumbling("10 s"), late_to="late").count(name="counts")
    with TestDriver(app) as driver:
        driver.topic("n").pipe("x", key="k", timestamp=30 * SECONDS)
        driver.topic("n").pipe("x" * 1_048_500, "y", key="k", timestamp=7 * SECONDS)
        assert [record.value for record in driver.topic("late").read_raw()] == [b"y"]
        assert [len(letter.value or b"") for letter in driver.topic("test.dead-letters").read_raw()] == [1_048_500]
