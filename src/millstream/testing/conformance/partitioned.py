"""Replay cases on several partitions, in any execution mode, with one record per batch or with all in one.

The results are compared by key with those of the case, as far as Kafka Streams guarantees them (``guarantees.py``).
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, TypeAlias

import msgspec

from millstream.errors import MillstreamError
from millstream.foundation.partitioning import partition_of
from millstream.plan.processors import PROCESSORS
from millstream.plan.topology import Plan
from millstream.testing.batch_driver import MODES, BatchDriver, Mode
from millstream.testing.conformance.cases import Case
from millstream.testing.conformance.comparing import (
    Outputs,
    TopicRecords,
    last_per_key,
    new_records,
    sort_key,
    store_differences,
    store_entries,
)
from millstream.testing.conformance.guarantees import Guarantee, guarantee_of
from millstream.testing.conformance.replay import Outcome, do_step
from millstream.testing.conformance.sources import reads
from millstream.testing.conformance.topology import Topology
from millstream.testing.driver import TestDriver

PARTITIONS = (1, 3, 8)
Stores: TypeAlias = dict[str, dict[str, Any]]


class Setting(NamedTuple):
    """Where a case runs."""

    partitions: int
    large: bool
    """Whether all records are one batch; otherwise each is a batch of its own."""
    mode: Mode

    def __str__(self) -> str:
        return f"{self.partitions} partitions, {'one batch' if self.large else 'small batches'}, {self.mode} mode"


def settings_of(case: Case, partitions: int) -> Iterator[Setting]:
    """Yield small and large batches; the execution modes follow from the id of the case, so that all are used."""
    number = sum(case.id.encode()) + partitions
    for large in (False, True):
        yield Setting(partitions, large, MODES[(number + large) % len(MODES)])


def replay_partitioned(case: Case, setting: Setting) -> Outcome:
    """Replay a case in process; ``not comparable`` if Kafka Streams does not guarantee its results there."""
    guarantee = guarantee_of(case, setting.partitions, large=setting.large)
    if isinstance(guarantee, str):
        return Outcome(case.id, case.group, "not comparable", (guarantee,))
    try:
        app = Topology(case.topology, {}).app
        with BatchDriver(app, partitions=setting.partitions, mode=setting.mode, seed=len(case.steps)) as driver:
            pipe_all(case, driver, large=setting.large)
            driver.flush()
            differences = partitioned_differences(case, setting.partitions, guarantee, driver)
    except MillstreamError as error:
        differences = [f"{type(error).__name__}: {error}"]
    return outcome_at(setting, case, differences)


def outcome_at(setting: Setting, case: Case, differences: list[str]) -> Outcome:
    """Return the outcome of a case that was compared; its differences name the setting."""
    texts = tuple(f"{setting}: {text}" for text in differences)
    return Outcome(case.id, case.group, "failed" if texts else "passed", texts)


def draw(cases: Iterable[Case], partitions: int, count: int, seed: int) -> list[Case]:
    """Draw cases until ``count`` of them are comparable as one batch; the others that were drawn are returned too."""
    drawn: list[Case] = []
    comparable = 0
    for case in random.Random(seed).sample(pool := list(cases), len(pool)):
        if comparable == count:
            break
        drawn.append(case)
        comparable += isinstance(guarantee_of(case, partitions, large=True), Guarantee)
    return drawn


def pipe_all(case: Case, driver: TestDriver, *, large: bool) -> None:
    """Pipe all records of a case, as one batch if ``large``."""
    if not large:
        for step in case.steps:
            do_step(step, driver)
        return
    with driver.holding():
        for step in case.steps:
            do_step(step, driver)


def partitioned_differences(case: Case, partitions: int, guarantee: Guarantee, driver: Outputs) -> list[str]:
    """Compare all topics and stores with those that are guaranteed."""
    expected, stores = _expected_by_partition(case, partitions) if guarantee.by_partition else _expected(case)
    actual = _written(case, driver)
    sinks = frozenset(str(node["topic"]) for node in case.topology if node["op"] == "to")
    differences: list[str] = []
    for topic in sorted({*actual, *expected}):
        is_ordered = guarantee.is_ordered(topic, sinks)
        rule = case.compare.get(topic)
        ours, theirs = (_by_key(side.get(topic, []), case, rule, is_ordered) for side in (actual, expected))
        differences += [
            f"topic {topic!r}, key {key} has {ours.get(key, [])}, expected {theirs.get(key, [])}"
            for key in sorted({*ours, *theirs})
            if ours.get(key) != theirs.get(key)
        ]
    return [*differences, *store_differences(case, stores, driver)]


def _by_key(records: list[list[Any]], case: Case, rule: str | None, is_ordered: bool) -> dict[str, list[Any]]:
    keys: dict[str, list[Any]] = defaultdict(list)
    for record in last_per_key(records) if rule == "last_per_key" else records:
        keys[msgspec.json.encode(record[0]).decode()].append(record if case.headers else record[:3])
    return {
        key: values if is_ordered and key != "null" else sorted(values, key=msgspec.json.encode)
        for key, values in keys.items()
    }


def _expected(case: Case) -> tuple[TopicRecords, Stores]:
    topics: TopicRecords = defaultdict(list)
    piped = _piped(case)
    for topic, *record in (record for step in case.expect.steps for record in step):
        if topic not in piped:
            topics[topic].append(record)
    return topics, case.expect.stores


def _piped(case: Case) -> set[str]:
    return {step["pipe"][0] for step in case.steps if "pipe" in step}


def _written(case: Case, driver: Outputs) -> TopicRecords:
    """Return the records of topics that only the app writes."""
    piped = _piped(case)
    records = new_records({}, driver, lambda topic: any(reads(node, topic) for node in case.topology))
    return {topic: topic_records for topic, topic_records in records.items() if topic not in piped}


def _expected_by_partition(case: Case, partitions: int) -> tuple[TopicRecords, Stores]:
    """Return what one task gives for each partition: the test driver's results, which the cases verify."""
    topics: TopicRecords = defaultdict(list)
    entries: dict[str, list[Any]] = {name: [] for name in case.expect.stores}
    copied = {node.get("store") for node in case.topology if node["op"] == "global_table"}  # every task has all of it
    plan = Topology(case.topology, {}).app.plan
    has_processors = any(isinstance(node, PROCESSORS) for node in plan.nodes)  # their timers need no records
    for partition in range(partitions):
        steps = [step for step in case.steps if "pipe" not in step or _is_in(step["pipe"], partition, partitions, plan)]
        if not steps and partition > 0 and not has_processors:
            continue
        with TestDriver(Topology(case.topology, {}).app) as driver:
            for step in steps:
                do_step(step, driver)
            for topic, records in _written(case, driver).items():
                topics[topic] += records
            for name, store in case.expect.stores.items():
                if partition == 0 or name not in copied:
                    entries[name] += store_entries(case, name, store, driver)
    stores = {
        name: {**store, "entries": sorted(entries[name], key=lambda entry: sort_key(entry[0]))}
        for name, store in case.expect.stores.items()
    }
    return topics, stores


def _is_in(pipe: list[Any], partition: int, partitions: int, plan: Plan) -> bool:
    topic, key = pipe[:2]
    if topic in plan.global_tables:
        return True
    return partition == (0 if key is None else partition_of(key.encode(), partitions))
