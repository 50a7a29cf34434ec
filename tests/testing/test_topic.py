"""Topics of the test driver: timestamps of records, and ways to read them."""

from collections.abc import Iterator

import pytest

from millstream import App, Processor, Record, key_value_store
from millstream.errors import DefinitionError
from millstream.testing import TestDriver


class Last(Processor):
    stores = {"last": key_value_store(value=int)}

    def process(self, record: Record) -> None:
        if record.key is None:
            return
        last = self.context.store("last")
        self.context.forward(record, value=[last.get(record.key, 0), record.value])
        last.put(record.key, record.value)


@pytest.fixture
def driver() -> Iterator[TestDriver]:
    app = App("test")
    stream = app.stream("n", value=int)
    stream.to("out")
    stream.filter(lambda n: n >= 0).group_by_key().count(name="counts")
    stream.process(Last, name="p").to("pairs")
    with TestDriver(app, partitions=3, wall_clock=500) as driver:
        yield driver


def times(driver: TestDriver) -> list[int]:
    return sorted(record.timestamp for record in driver.topic("out").read())


def test_records_get_the_wall_clock_time_or_a_time_that_advances(driver: TestDriver) -> None:
    driver.topic("n").pipe(1)
    assert times(driver) == [500]
    topic = driver.topic("n", start=10, advance="5 ms")
    topic.pipe(1, 2, key="k")
    topic.pipe_pairs([("k", 1)])
    topic.advance_time("1 s")
    topic.pipe(3, key="k")
    topic.pipe(4, key="k", timestamp=7)
    assert times(driver) == [7, 10, 15, 20, 1_025]
    driver.topic("n", advance="1 ms").pipe(1, 2)
    assert times(driver) == [500, 501]
    later = driver.topic("n")
    later.advance_time("2 ms")
    later.pipe(1, 1)
    assert times(driver) == [502, 502]


def test_timestamps_can_advance_within_a_call(driver: TestDriver) -> None:
    driver.topic("n").pipe(1, 2, 3, timestamp=5, advance="10 ms")
    driver.topic("n").pipe_pairs([("a", 1), ("b", 2)], timestamp=7, advance="10 ms")
    assert times(driver) == [5, 7, 15, 17, 25]


def test_records_are_read_one_at_a_time_or_counted_or_by_key(driver: TestDriver) -> None:
    out = driver.topic("out")
    assert (out.unread, out.is_empty) == (0, True)
    driver.topic("n").pipe_pairs([("a", 1), ("b", 2), ("a", 3)])
    assert (out.unread, out.is_empty) == (3, False)
    first = out.read_record()
    assert out.unread == 2
    others = out.read()
    assert sorted(record.value for record in [first, *others]) == [1, 2, 3]
    with pytest.raises(LookupError, match="topic 'out' has no unread record"):
        out.read_record()
    driver.topic("n").pipe_pairs([("a", 4), ("b", 5), ("a", 6)])
    assert out.read_map() == {"a": 6, "b": 5}


def test_records_that_were_read_can_be_piped(driver: TestDriver) -> None:
    driver.topic("n").pipe(1, key="k", timestamp=9, headers={"h": b"1"})
    (record,) = driver.topic("out").read()
    driver.topic("n").pipe_records([record, record])
    assert [(copy.key, copy.value, copy.timestamp, copy.headers) for copy in driver.topic("out").read()] == [
        ("k", 1, 9, (("h", b"1"),))
    ] * 2


def test_tables_and_stores_can_be_filled_before_the_test(driver: TestDriver) -> None:
    driver.fill("counts", {"a": 5, "b": 7}, timestamp=3)
    driver.fill("p.last", {"a": 1, "b": 2})
    row = driver.table("counts").row("a")
    assert row is not None
    assert (row.value, row.timestamp) == (5, 3)
    driver.topic("n").pipe_pairs([("a", 10), ("b", 20), ("c", 30)])
    assert dict(driver.table("counts").items()) == {"a": 6, "b": 8, "c": 1}
    assert driver.topic("pairs").read_map() == {"a": [1, 10], "b": [2, 20], "c": [0, 30]}
    with pytest.raises(DefinitionError, match="'nothing' cannot be filled"):
        driver.fill("nothing", {})


def test_metrics_are_totals_of_all_batches(driver: TestDriver) -> None:
    driver.topic("n").pipe_pairs([("a", 1), (None, 2), ("a", -3)])
    assert driver.metrics == {"records_in": 3, "records_out": 5, "dead_letters": 0, "dropped": 1}
    assert driver.dropped == {"counts: null_key": 1}
    assert sorted(driver.tables) == ["counts", "p.last"]
