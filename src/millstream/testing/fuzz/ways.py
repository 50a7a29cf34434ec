"""Ways to run a case: batches, execution modes, partitions, single records instead of columns, and restarts.

With the same batches and partitions, every way must give exactly the same topics, tables and counts.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any
from unittest.mock import patch

import msgspec

from millstream.operators.build import EntryPoint, build
from millstream.plan.node import Node
from millstream.testing.batch_driver import BatchDriver, Mode
from millstream.testing.conformance.cases import Case
from millstream.testing.conformance.comparing import plain_key
from millstream.testing.conformance.guarantees import unordered_topics
from millstream.testing.conformance.replay import do_step
from millstream.testing.conformance.topology import Topology

Results = dict[str, Any]
"""By topic its records, by table its rows, and the numbers of dropped records by reason."""


class Way(msgspec.Struct, frozen=True, kw_only=True):
    """How to run a case. Steps with the same number in ``batches`` are one batch."""

    mode: Mode = "single"
    partitions: int = 1
    batches: tuple[int, ...] = ()
    """The number of steps in each batch; the steps after them are batches of one."""
    columns: bool = True
    restarts: tuple[int, ...] = ()
    """Restart after these batches."""
    crashes: tuple[int, ...] = ()
    """Crash after these batches, before they are marked as done."""
    caching: bool = False
    seed: int = 0


def run(case: Case, way: Way) -> Results:
    """Run a case in some way and return everything that it leaves behind; an error is a result too."""
    topology = Topology(case.topology, case.config or {})
    options: dict[str, Any] = {"partitions": way.partitions, "caching": way.caching, "mode": way.mode}
    with nullcontext() if way.columns else rows_only(), BatchDriver(topology.app, **options, seed=way.seed) as driver:
        for number, steps in enumerate(batches_of(case.steps, way.batches)):
            with driver.holding():
                for step in steps:
                    do_step(step, driver)
            if number in way.crashes or number in way.restarts:
                driver.restart(crash=number in way.crashes)
        driver.flush()
        return results_of(driver, way.partitions)


def batches_of(steps: list[dict[str, Any]], sizes: tuple[int, ...]) -> Iterator[list[dict[str, Any]]]:
    """Cut steps into batches; advancing the wall clock is a batch of its own."""
    sizes_left, batch = iter(sizes), list[dict[str, Any]]()
    size = next(sizes_left, 1)
    for step in steps:
        if "pipe" not in step:
            if batch:
                yield batch
            yield [step]
            batch, size = [], next(sizes_left, 1)
            continue
        batch.append(step)
        if len(batch) >= size:
            yield batch
            batch, size = [], next(sizes_left, 1)
    if batch:
        yield batch


def results_of(driver: BatchDriver, partitions: int) -> Results:
    """Return all topics, tables and counts of an app, comparable with ``==``.

    On several partitions a topic is compared by key, because its tasks write in any order; a topic that several tasks
    write with the same key has no order at all.
    """
    plan = driver.app.plan
    read = set(plan.source_topics)
    unordered = unordered_topics(plan, partitions, large=True)
    topics: dict[str, Any] = {}
    for name in driver.topics:
        if name not in read:
            records = driver.topic(name).read()
            rows = [[record.partition, record.key, record.value, record.timestamp] for record in records]
            topics[name] = rows if partitions == 1 else _by_key(rows, is_ordered=name not in unordered)
    tables = {name: _rows(driver, name) for name in driver.tables}
    return {"topics": topics, "tables": tables, "dropped": dict(sorted(driver.dropped.items()))}


def _by_key(rows: list[list[Any]], *, is_ordered: bool) -> dict[str, list[Any]]:
    keys: dict[str, list[Any]] = {}
    for row in rows:
        keys.setdefault(msgspec.json.encode(row[1]).decode(), []).append(row)
    has_order = {key: is_ordered and key != "null" for key in keys}
    return {key: of_key if has_order[key] else sorted(of_key, key=msgspec.json.encode) for key, of_key in keys.items()}


def _rows(driver: BatchDriver, name: str) -> list[Any]:
    rows = [[plain_key(row.key), row.value, row.timestamp] for row in driver.table(name).scan()]
    return sorted(rows, key=lambda row: msgspec.json.encode(row[0]))


@contextmanager
def rows_only() -> Iterator[None]:
    """Process records one by one: no entry point of a stage takes columns."""

    def by_rows(*arguments: Any) -> dict[Node, EntryPoint]:
        return {node: EntryPoint(entry.process, None) for node, entry in build(*arguments).items()}

    with patch("millstream.task.run.build", by_rows):
        yield


def random_ways(pick: random.Random, steps: int, count: int) -> tuple[Way, list[Way]]:
    """Return a plain way with random batches and partitions, and others that must have the same results."""
    sizes = tuple(pick.choice([1, 1, 2, 3, 5, steps]) for _ in range(steps))
    plain = Way(partitions=pick.choice([1, 1, 1, 3, 8]), batches=sizes, caching=pick.random() < 0.3)
    return plain, [_other(pick, plain, steps) for _ in range(count)]


def _other(pick: random.Random, plain: Way, steps: int) -> Way:
    points = tuple(sorted(pick.sample(range(steps), pick.randint(0, min(3, steps)))))
    crashes = tuple(sorted(pick.sample(range(steps), pick.randint(0, min(2, steps)))))
    mode: Mode = pick.choice(("single", "parallel", "resident"))
    return msgspec.structs.replace(
        plain, mode=mode, columns=pick.random() < 0.6, restarts=points, crashes=crashes, seed=pick.randint(0, 99)
    )
