"""Equal timestamps are taken in the order of ``java.util.PriorityQueue``."""

from __future__ import annotations

from millstream import App
from millstream.testing import TestDriver
from millstream.testing.kafka_order import WaitingRecord, WaitingRecords


def taken(*inputs: str) -> str:
    """Add a record with the same timestamp to each input, which is named by a letter; return the inputs as taken."""
    waiting = WaitingRecords()
    for number, name in enumerate(inputs):
        waiting.add(name, WaitingRecord(5, receiver=number))
    order = []
    while (record := waiting.take()) is not None:
        order.append(inputs[record.receiver])
    return "".join(order)


def test_two_inputs_take_turns() -> None:
    assert taken(*"AABB") == "ABAB"


def test_of_three_inputs_the_last_goes_before_the_second() -> None:
    assert taken(*"ABC") == "ACB"


def test_the_earliest_record_goes_first() -> None:
    waiting = WaitingRecords()
    for number, (name, timestamp) in enumerate([("A", 9), ("B", 7), ("C", 8), ("B", 1)]):
        waiting.add(name, WaitingRecord(timestamp, receiver=number))
    assert [record.receiver for _ in range(4) if (record := waiting.take()) is not None] == [1, 3, 2, 0]


def cogrouped() -> App:
    """Two inputs of one aggregate, each behind its own shuffle."""
    app = App("turns")
    letters = app.stream("in", value=str).flat_map(lambda value: [(letter, letter) for letter in value])
    left = letters.map_values(str.upper).group_by(lambda _: "all")
    right = letters.group_by(lambda _: "all")
    left.cogroup(lambda total, value: total + value).cogroup(right, lambda total, value: total + value).aggregate(
        str, name="sum"
    )
    return app


def test_edges_take_turns_where_all_stages_are_one_task() -> None:
    with TestDriver(cogrouped(), one_stream_time=True) as driver:
        driver.topic("in").pipe("xy")
        assert driver.table("sum")["all"] == "XxYy"


def test_in_batches_the_input_that_is_written_first_goes_first() -> None:
    with TestDriver(cogrouped()) as driver:
        driver.topic("in").pipe("xy")
        assert driver.table("sum")["all"] == "XYxy"
