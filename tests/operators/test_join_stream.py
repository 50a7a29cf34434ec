"""Joins of two streams: pairs close in time, and unmatched records. The conformance cases cover the details."""

from datetime import timedelta
from typing import Any

import pytest

from millstream import App, Config, JoinWindow, join_window
from millstream.errors import DefinitionError
from millstream.plan.layout import Layout
from millstream.testing import TestDriver

Piped = tuple[str, str | None, str | None, int]


def joiner(left: str | None, right: str | None) -> str:
    return f"{left}-{right}"


def joined(verb: str, within: JoinWindow, records: list[Piped], *, rekeyed: bool = False) -> list[tuple[Any, Any, int]]:
    app = App("joined")
    left, right = app.stream("left", key=str, value=str), app.stream("right", key=str, value=str)
    if rekeyed:
        left = left.select_key(lambda key, _value: key, key=str)
    getattr(left, verb)(right, joiner, within=within).to("out", value=str)
    with TestDriver(app) as driver:
        for topic, key, value, timestamp in records:
            driver.topic(topic).pipe(value, key=key, timestamp=timestamp)
        return [(record.key, record.value, record.timestamp) for record in driver.topic("out").read()]


def test_every_pair_inside_the_window_is_forwarded_once_with_the_later_timestamp() -> None:
    records: list[Piped] = [
        ("left", "k", "A", 0), ("right", "k", "a", 10), ("right", "k", "b", 11), ("left", "k", "B", 5),
        ("right", "other", "c", 5),
    ]  # fmt: skip
    assert joined("join", join_window("10 ms"), records) == [("k", "A-a", 10), ("k", "B-a", 10), ("k", "B-b", 11)]


def test_before_and_after_refer_to_the_left_record() -> None:
    window = join_window(before="5 ms", after="0 ms")
    records: list[Piped] = [
        ("left", "k", "A", 10),
        ("right", "k", "a", 5),
        ("right", "k", "b", 4),
        ("right", "k", "c", 11),
    ]
    assert joined("join", window, records) == [("k", "A-a", 10)]


def test_unmatched_records_wait_for_the_window_and_its_grace() -> None:
    window = join_window("10 ms", grace="5 ms")
    before: list[Piped] = [("left", "a", "A", 0), ("right", "b", "b", 0), ("left", "x", "X", 15)]
    assert joined("outer_join", window, before) == []
    after: list[Piped] = [*before, ("left", "y", "Y", 16)]
    assert joined("outer_join", window, after) == [("b", "None-b", 0), ("a", "A-None", 0)]
    assert joined("left_join", window, after) == [("a", "A-None", 0)]
    assert joined("join", window, after) == []


def test_a_record_with_a_partner_in_time_is_no_longer_unmatched() -> None:
    records: list[Piped] = [("left", "a", "A", 0), ("right", "a", "a", 3), ("left", "z", "Z", 100)]
    assert joined("left_join", join_window("10 ms"), records) == [("a", "A-a", 3)]


def test_a_record_without_key_has_no_partner_and_one_without_value_is_dropped() -> None:
    records: list[Piped] = [("left", None, "A", 0), ("right", None, "a", 0), ("left", "k", None, 0)]
    for rekeyed in (False, True):
        assert joined("join", join_window("10 ms"), records, rekeyed=rekeyed) == []
        assert joined("left_join", join_window("10 ms"), records, rekeyed=rekeyed) == [(None, "A-None", 0)]
    assert joined("outer_join", join_window("10 ms"), records) == [(None, "A-None", 0), (None, "None-a", 0)]


def test_a_stream_can_be_joined_with_itself() -> None:
    app = App("self")
    stream = app.stream("in", key=str, value=str)
    stream.join(stream, joiner, within=join_window("10 ms")).to("out", value=str)
    with TestDriver(app) as driver:
        driver.topic("in").pipe("A", key="k", timestamp=0)
        driver.topic("in").pipe("B", key="k", timestamp=1)
        assert driver.topic("out").read_values() == ["A-A", "B-A", "A-B", "B-B"]


def test_after_a_joiner_raises_the_record_is_not_joined_with_further_partners() -> None:
    def picky(left: str, right: str) -> str:
        if right == "bad":
            raise ValueError("no")
        return left + right

    app = App("picky", config=Config(on_error="skip"))
    left, right = app.stream("left", key=str, value=str), app.stream("right", key=str, value=str)
    left.join(right, picky, within=join_window("10 ms")).to("out", value=str)
    with TestDriver(app) as driver:
        for value in ("good", "bad", "fine"):
            driver.topic("right").pipe(value, key="k", timestamp=0)
        driver.topic("left").pipe("A", key="k", timestamp=0)
        assert driver.topic("out").read_values() == ["Agood"]
        driver.topic("right").pipe("next", key="k", timestamp=1)
        assert driver.topic("out").read_values() == ["Anext"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "needs a width"),
        ({"before": timedelta(seconds=-2), "after": "1 s"}, "is not valid"),
        ({"around": "1 s", "grace": timedelta(seconds=-1)}, "is not valid"),
    ],
)
def test_invalid_windows_are_rejected(options: dict[str, Any], message: str) -> None:
    with pytest.raises(DefinitionError, match=message):
        join_window(**options)


def test_a_join_rejects_wrong_arguments() -> None:
    app = App("refused")
    left, right, table = app.stream("left"), app.stream("right"), app.table("rows")
    with pytest.raises(DefinitionError, match="within=join_window"):
        left.join(right, joiner)  # type: ignore[call-overload]
    with pytest.raises(DefinitionError, match="cannot have a window"):
        left.join(table, joiner, within=join_window("1 s"))  # type: ignore[call-overload]
    with pytest.raises(DefinitionError, match="cannot be an outer join"):
        left.outer_join(table, joiner, within=join_window("1 s"))  # type: ignore[call-overload]
    with pytest.raises(DefinitionError, match="expects a stream or a table"):
        left.join("right", joiner)  # type: ignore[call-overload]


def test_streams_with_different_partition_counts_cannot_be_joined() -> None:
    app = App("unequal")
    app.stream("left").join(app.stream("right"), joiner, within=join_window("1 s")).to("out")
    with pytest.raises(DefinitionError, match=r"cannot join 'left' \(2 partitions\) with 'right' \(3 partitions\)"):
        Layout.of(app.plan, {"left": 2, "right": 3})
