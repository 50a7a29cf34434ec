from typing import Any

from millstream import App
from millstream.functions import Context
from millstream.testing import TestDriver

Seen = list[tuple[Any, ...]]


def facts(context: Context) -> tuple[Any, ...]:
    return context.topic, context.partition, context.offset, context.timestamp, context.headers


def test_functions_take_value_or_key_and_value_or_also_context() -> None:
    app = App("test")
    stream = app.stream("n", value=int)
    stream.map_values(lambda value: [value]).to("out")
    stream.map_values(lambda key, value: [key, value]).to("out")
    stream.map_values(lambda key, value, context: [key, value, context.offset]).to("out")
    with TestDriver(app) as driver:
        driver.topic("n").pipe(7, key="k")
        assert driver.topic("out").read_values() == [[7], ["k", 7], ["k", 7, 0]]


def test_the_context_has_topic_partition_and_offset_of_the_record() -> None:
    seen: Seen = []
    app = App("test")
    app.stream("a", "b", value=int).foreach(lambda key, value, context: seen.append(facts(context)))
    with TestDriver(app) as driver:
        driver.topic("b").pipe(1, 2, timestamp=5)
        driver.topic("a").pipe(3, timestamp=4, headers={"h": b"1"})
    assert seen == [("b", 0, 0, 5, ()), ("b", 0, 1, 5, ()), ("a", 0, 0, 4, (("h", b"1"),))]


def test_the_partition_is_the_one_that_was_read() -> None:
    seen: list[tuple[str, int]] = []
    app = App("test")
    app.stream("n", value=int).foreach(lambda key, value, context: seen.append((key, context.partition)))
    with TestDriver(app, partitions=4) as driver:
        driver.topic("n").pipe_pairs([("a", 1), ("b", 1), ("c", 1), ("d", 1)])
        partitions = {record.key: record.partition for record in driver.topic("n").read()}
    assert dict(seen) == partitions
    assert len(set(partitions.values())) > 1


def test_after_a_table_the_context_is_that_of_the_record_that_changed_it() -> None:
    seen: Seen = []
    app = App("test")
    counts = app.stream("n", value=int).group_by_key().count()
    counts.to_stream().foreach(lambda key, count, context: seen.append((count, *facts(context)[:3])))
    with TestDriver(app) as driver:
        driver.topic("n").pipe(1, 1, key="k")
    assert seen == [(1, "n", 0, 0), (2, "n", 0, 1)]
