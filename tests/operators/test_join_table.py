import pytest

from millstream import App
from millstream.serdes import INT64
from millstream.testing import TestDriver

# semantics: side, value, timestamp, inner result, left result, as in the test of Kafka Streams, one key
STEPS = [
    ("L", None, 1, [], []),
    ("R", None, 2, [], []),
    ("L", "A", 3, [], ["A-None@3"]),
    ("R", "a", 4, [], []),
    ("L", "B", 5, ["B-a@5"], ["B-a@5"]),
    ("R", "b", 6, [], []),
    ("L", None, 7, [], []),
    ("R", None, 8, [], []),
    ("L", "C", 9, [], ["C-None@9"]),
    ("R", "c", 10, [], []),
    ("R", None, 11, [], []),
    ("R", "d", 7, [], []),
    ("L", "D", 6, ["D-d@6"], ["D-d@6"]),
    ("L", None, 2, [], []),
    ("R", None, 3, [], []),
    ("R", "e", 14, [], []),
    ("L", "E", 15, ["E-e@15"], ["E-e@15"]),
    ("R", None, 9, [], []),
    ("L", "F", 4, [], ["F-None@4"]),
]


@pytest.mark.parametrize("left", [False, True])
def test_each_step_has_the_result_of_kafka_streams(left: bool) -> None:
    app = App("test")
    stream, table = app.stream("L", value=str), app.table("R", value=str)
    join = stream.left_join if left else stream.join
    join(table, lambda left, right: f"{left}-{right}").to("out")
    with TestDriver(app) as driver:
        for side, value, timestamp, inner, outer in STEPS:
            driver.topic(side).pipe(value, key="0", timestamp=timestamp)
            results = [f"{record.value}@{record.timestamp}" for record in driver.topic("out").read()]
            assert results == (outer if left else inner), (side, value, timestamp)


def test_null_keys_are_dropped_by_join_and_joined_with_none_by_left_join() -> None:
    app = App("test")
    stream, table = app.stream("s", value=str), app.table("t", value=str)
    stream.join(table, lambda left, right: [left, right], name="inner").to("inner")
    stream.left_join(table, lambda left, right: [left, right], name="left").to("left")
    with TestDriver(app) as driver:
        driver.topic("s").pipe("a")
        assert [report.dropped for report in driver.reports] == [{"inner: null_key": 1}]
        assert driver.topic("left").read_key_values() == [(None, ["a", None])]
        driver.topic("s").pipe(None, key="k")
        assert [report.dropped for report in driver.reports] == [{"inner: null_value": 1, "left: null_value": 1}]
        assert driver.topic("inner").read() == []


@pytest.mark.parametrize("partitions", [1, 3])
def test_null_keys_reach_a_left_join_after_a_repartition_too(partitions: int) -> None:
    app = App("test")
    rekeyed = app.stream("s", value=str).select_key(lambda word: None if word == "b" else word)
    rekeyed.left_join(app.table("t", value=str), lambda key, left, right: [key, left, right]).to("out")
    rekeyed.group_by_key().count(name="seen")
    with TestDriver(app, partitions=partitions) as driver:
        driver.topic("t").pipe("row", key="a")
        driver.topic("s").pipe("a", "b")
        assert sorted(driver.topic("out").read_values(), key=str) == [["a", "a", "row"], [None, "b", None]]
        assert dict(driver.table("seen").items()) == {"a": 1}


def test_a_re_keyed_stream_is_co_partitioned_with_the_table_whatever_its_serde() -> None:
    """The count is defined first and partitions by text keys; the join needs the table's binary keys."""
    app = App("test")
    rekeyed = app.stream("s", value=int).select_key(lambda n: n)
    rekeyed.group_by_key().count(name="seen")
    rekeyed.join(app.table("t", key=INT64, value=str), lambda _, row: row).to("out")
    with TestDriver(app, partitions=4) as driver:
        for number in range(10):
            driver.topic("t").pipe(f"row {number}", key=number)
        driver.topic("s").pipe(*range(10))
        assert sorted(driver.topic("out").read_values()) == [f"row {number}" for number in range(10)]
        assert dict(driver.table("seen").items()) == dict.fromkeys(range(10), 1)


def test_the_table_may_be_an_aggregation_of_another_stream() -> None:
    app = App("test")
    counts = app.stream("clicks", value=str).group_by(lambda user: user).count(name="clicks_per_user")
    app.stream("visits", value=str).left_join(counts, lambda visit, clicks: [visit, clicks]).to("out")
    with TestDriver(app) as driver:
        driver.topic("clicks").pipe("u", "u")
        driver.topic("visits").pipe_pairs([("u", "home"), ("w", "home")])
        assert driver.topic("out").read_key_values() == [("u", ["home", 2]), ("w", ["home", None])]
