"""Random topologies give the same results on Spark, with any batches, as record by record in the test driver.

This holds only where the order of records is defined. A task merges its inputs by time, so records of different
partitions must have different, increasing timestamps, in the order in which they are written; batch boundaries then
cannot change the order. Records out of order are tested too, in topologies with one input that do not move records
between tasks, since each partition keeps its order there. Both sides have the same number of partitions, because
lateness depends on what a task has seen; where nothing can be late or has to close, one partition and four give the
same results.
"""

from __future__ import annotations

import os
import random
from collections import defaultdict
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import pytest

from millstream import (
    App,
    Windowed,
    collect_of,
    count_of,
    hopping,
    last_of,
    max_of,
    mean_of,
    session,
    sliding,
    sum_of,
    tumbling,
)
from millstream.dsl.grouped import GroupedStream
from millstream.dsl.stream import Stream
from millstream.testing import TestDriver
from millstream.testing.spark_driver import SparkDriver

pytestmark = pytest.mark.spark

SEEDS = [int(os.environ["MILLSTREAM_SEED"])] if "MILLSTREAM_SEED" in os.environ else list(range(101, 106))
RECORDS = 60
KEYS = "abcdefgh"
WINDOWS = (
    tumbling("10 ms", grace="5 ms"),
    hopping("10 ms", every="5 ms", grace="5 ms"),
    sliding("6 ms", grace="5 ms"),
    session(gap="4 ms", grace="5 ms"),
)
Records = list[tuple[str, int, int]]
"""(key, value, time)"""
Results = tuple[dict[str, dict[Any, Any]], dict[str, list[Any]]]
"""The rows of each table, and the values of each topic and key, in order."""


class Topology:
    """A topology generated from a seed; the same seed generates the same topology."""

    def __init__(self, seed: int, *, moves: bool, joins: bool) -> None:
        self._pick = random.Random(seed)
        self._moves = moves
        self.app = App(f"random-{seed}")
        self.tables: list[str] = []
        self.closes = False
        """Whether results depend on the stream time of a task."""
        stream = self._steps(self.app.stream("in", value=int))
        for number in range(self._pick.randint(1, 2)):
            self._aggregated(self._grouped(stream), f"table{number}")
        if joins and self._pick.random() < 0.5:
            others = self.app.stream("other", value=int)
            stream.join(others.to_table(name="others"), lambda left, right: [left, right]).to("others-out")
            self.tables.append("others")

    def _steps(self, stream: Stream) -> Stream:
        for _ in range(self._pick.randint(0, 3)):
            number = self._pick.randint(2, 5)
            steps = [
                lambda s, n=number: s.filter(lambda value: value % n != 0),
                lambda s, n=number: s.map_values(lambda value: value * n + 1),
                lambda s, n=number: s.flat_map_values(lambda value: [value, value + n]),
                lambda s, n=number: s.merge(s.filter_not(lambda value: value % n == 0)),
            ]
            stream = self._pick.choice(steps)(stream)
        return stream

    def _grouped(self, stream: Stream) -> GroupedStream:
        if not self._moves or self._pick.random() < 0.3:
            return stream.group_by_key()
        number = self._pick.randint(2, 5)
        return stream.group_by(lambda _key, value: f"g{value % number}")

    def _aggregated(self, grouped: GroupedStream, name: str) -> None:
        self.tables.append(name)
        kind = self._pick.choice(["count", "agg", "reduce", "windows", "again"])
        if kind == "count":
            grouped.count(name=name).to_stream().to(f"{name}-out")
        elif kind == "reduce":
            grouped.reduce(lambda total, value: (total * 3 + value) % 10_007, name=name).to_stream().to(f"{name}-out")
        elif kind == "agg":
            several = grouped.agg(n=count_of(), mean=mean_of(), last=last_of(), all=collect_of(), name=name)
            several.to_stream().to(f"{name}-out")
        elif kind == "windows":
            final, self.closes = self._pick.random() < 0.4, True
            windowed = grouped.windowed_by(self._pick.choice(WINDOWS)).emit("final" if final else "updates")
            windowed.agg(n=count_of(), high=max_of(), all=collect_of(), name=name).to_stream().to(f"{name}-out")
        else:  # a table derived from a table: how many keys have the same count
            counts = grouped.count(name=name)
            self.tables.append(f"{name}-again")
            again = counts.group_by(lambda _key, count: f"n{count}") if self._moves else None
            if again is None:
                counts.filter(lambda count: count > 1, name=f"{name}-again").to_stream().to(f"{name}-out")
            else:
                again.agg(n=count_of(), sum=sum_of(), name=f"{name}-again").to_stream().to(f"{name}-out")


def records(pick: random.Random, *, in_order: bool) -> Records:
    return [
        (pick.choice(KEYS), pick.randint(0, 30), time if in_order else max(0, time - pick.randint(0, 12)))
        for time in range(10, 10 + RECORDS)
    ]


def parts(pick: random.Random, items: Records) -> Iterator[Records]:
    while items:
        size = pick.choice([1, 2, 7, 20, RECORDS])
        yield items[:size]
        items = items[size:]


def run(driver: TestDriver, topology: Topology, batches: list[Records]) -> Results:
    with driver:
        for batch in batches:
            with driver.holding() if isinstance(driver, SparkDriver) else nullcontext():
                for key, value, time in batch:
                    topic = "other" if value % 7 == 0 and "other" in driver.topics else "in"
                    driver.topic(topic).pipe(value, key=key, timestamp=time)
        sequences: dict[str, list[Any]] = defaultdict(list)
        for topic in driver.topics:
            for record in driver.topic(topic).read():
                sequences[f"{topic} {record.key}"].append((record.value, record.timestamp))
        tables = {name: {_plain(row.key): row.value for row in driver.table(name).scan()} for name in topology.tables}
    return tables, dict(sequences)


def _plain(key: Any) -> Any:
    return (key.key, key.start, key.end) if isinstance(key, Windowed) else key


@pytest.mark.parametrize("in_order", [True, False], ids=["in-order", "out-of-order"])
@pytest.mark.parametrize("partitions", [1, 4])
@pytest.mark.parametrize("seed", SEEDS)
def test_spark_gives_the_same_results_as_the_test_driver(seed: int, partitions: int, in_order: bool) -> None:
    pick = random.Random(seed)
    moves = in_order or partitions == 1
    items = records(pick, in_order=in_order)

    def generated() -> Topology:
        return Topology(seed, moves=moves, joins=in_order)

    topology = generated()
    expected = run(TestDriver(topology.app, partitions=partitions), topology, [items])
    if in_order and partitions > 1 and not topology.closes:
        single = generated()
        assert run(TestDriver(single.app), single, [items]) == expected, f"seed {seed}"
    batches, same = list(parts(pick, items)), generated()
    spark = SparkDriver(same.app, partitions=partitions, single=pick.choice([0, 2_000]))
    sizes = [len(batch) for batch in batches]
    assert run(spark, same, batches) == expected, f"seed {seed}, batches of {sizes}: set MILLSTREAM_SEED={seed}"
