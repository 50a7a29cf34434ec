import pytest

from millstream import App
from millstream.errors import DefinitionError
from millstream.foundation.partitioning import partition_of
from millstream.testing import TestDriver


def test_each_record_is_sent_to_the_task_that_owns_its_key() -> None:
    app = App("test")
    moved = app.stream("words", value=str).select_key(lambda word: word).repartition(8)
    moved.map_values(lambda key, _, context: [key, context.partition]).to("out")
    words = [f"word{number}" for number in range(30)]
    with TestDriver(app, partitions=2) as driver:
        driver.topic("words").pipe(*words)
        placed = sorted(driver.topic("out").read_values())
    assert placed == sorted([word, partition_of(word.encode(), 8)] for word in words)


def test_null_keys_are_dropped_and_counted_and_null_values_kept() -> None:
    app = App("test")
    app.stream("n", value=int).repartition(name="spread").to("out")
    with TestDriver(app) as driver:
        driver.topic("n").pipe(1)
        assert [report.dropped for report in driver.reports if report.dropped] == [{"spread: null_key": 1}]
        driver.topic("n").pipe(None, key="k")
        assert driver.topic("out").read_key_values() == [("k", None)]


def test_timestamp_headers_and_types_are_preserved() -> None:
    app = App("test")
    seen: list[object] = []
    app.stream("n", value=int).map(lambda n: ((n, "k"), {n, n + 1})).repartition().peek(
        lambda key, value: seen.append((key, value))
    ).to("out")
    with TestDriver(app) as driver:
        driver.topic("n").pipe(1, timestamp=8, headers={"h": b"1"})
        (record,) = driver.topic("out").read()
    assert seen == [((1, "k"), {1, 2})]
    assert (record.timestamp, record.headers) == (8, (("h", b"1"),))


def test_a_topology_may_send_records_over_several_edges() -> None:
    app = App("test")
    first = app.stream("n", value=int).select_key(lambda n: n % 3).repartition(name="thirds")
    first.select_key(lambda n: n % 2).repartition(name="halves").group_by_key().count(name="seen")
    with TestDriver(app, partitions=3) as driver:
        driver.topic("n").pipe(*range(10))
        assert dict(driver.table("seen").items()) == {0: 5, 1: 5}
    assert app.plan.levels == 3


@pytest.mark.parametrize("partitions", [0, -1])
def test_less_than_one_partition_is_rejected(partitions: int) -> None:
    with pytest.raises(DefinitionError, match=rf"repartition\({partitions}\) is not valid; use 1 or more"):
        App("test").stream("n").repartition(partitions)


def test_null_keys_pass_repartitions_before_a_left_join() -> None:
    app = App("test")
    numbers = app.stream("n", value=int)
    moved = numbers.repartition(name="first").repartition(name="second")
    moved.left_join(app.table("t", value=int), lambda number, row: [number, row]).to("out")
    numbers.repartition(name="alone").to("plain")
    with TestDriver(app) as driver:
        driver.topic("n").pipe(1)
        assert driver.topic("out").read_key_values() == [(None, [1, None])]
        assert driver.topic("plain").read() == []


def test_null_keys_pass_a_repartition_before_a_left_join_with_a_global_table() -> None:
    app = App("test")
    moved = app.stream("n", value=int).repartition(name="moved")
    moved.left_join(app.global_table("g", value=int), lambda number, row: [number, row]).to("out")
    moved.group_by(lambda number: number).count(name="seen")
    with TestDriver(app) as driver:
        driver.topic("n").pipe(1)
        assert driver.topic("out").read_key_values() == [(None, [1, None])]
        assert dict(driver.table("seen").items()) == {1: 1}
