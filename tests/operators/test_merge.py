from millstream import App
from millstream.testing import TestDriver


def test_merge_forwards_the_records_of_all_streams() -> None:
    app = App("test")
    first, second, third = (app.stream(topic, value=int) for topic in ("one", "two", "three"))
    first.merge(second, third).to("out")
    with TestDriver(app) as driver:
        driver.topic("two").pipe(2, key="k")
        driver.topic("one").pipe(1, timestamp=9)
        driver.topic("three").pipe(None, key="k")
        assert driver.topic("out").read_key_values() == [("k", 2), (None, 1), ("k", None)]


def test_a_stream_merged_with_itself_counts_once() -> None:
    app = App("test")
    numbers = app.stream("n", value=int)
    numbers.merge(numbers, numbers).to("out")
    with TestDriver(app) as driver:
        driver.topic("n").pipe(1)
        assert driver.topic("out").read_values() == [1]


def test_a_record_on_two_paths_to_a_merge_arrives_twice() -> None:
    """As in Kafka Streams, where the second merge has two parents and one of them is the first merge."""
    app = App("test")
    numbers, others = app.stream("n", value=int), app.stream("others", value=int)
    numbers.merge(numbers.merge(others)).to("out")
    with TestDriver(app) as driver:
        driver.topic("n").pipe(1)
        driver.topic("others").pipe(2)
        assert driver.topic("out").read_values() == [1, 1, 2]


def test_a_merge_with_a_re_keyed_stream_is_repartitioned() -> None:
    app = App("test")
    first, second = app.stream("one", value=str), app.stream("two", value=str)
    first.merge(second.select_key(lambda word: word)).group_by_key().count(name="seen")
    with TestDriver(app, partitions=3) as driver:
        driver.topic("one").pipe("x", key="a")
        driver.topic("two").pipe("a", key="elsewhere")
        assert driver.table("seen")["a"] == 2
    assert app.plan.levels == 2
