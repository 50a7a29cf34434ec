"""Check that all ways to run a case agree; a difference is a sentence."""

from __future__ import annotations

import random
from typing import Any

import msgspec

from millstream.errors import DefinitionError
from millstream.testing.batch_driver import MODES
from millstream.testing.conformance.cases import Case, Expectation
from millstream.testing.conformance.comparing import new_records, store_entries
from millstream.testing.conformance.partitioned import PARTITIONS, Setting, replay_partitioned
from millstream.testing.conformance.replay import do_step
from millstream.testing.conformance.sources import reads
from millstream.testing.conformance.topology import Topology
from millstream.testing.driver import TestDriver
from millstream.testing.fuzz.ways import Results, Way, random_ways, run


def difference_of(case: Case, seed: int, ways: int = 2) -> str | None:
    """Run a case in random ways; return the first difference, None if all agree."""
    pick = random.Random(seed)
    plain, others = random_ways(pick, len(case.steps), ways)
    setting = Setting(pick.choice(PARTITIONS), pick.random() < 0.7, pick.choice(MODES))
    expected = run(case, plain)
    for way in others:
        difference = _results_difference(run(case, way), expected)
        if difference is not None:
            return f"{_shown(way)} is not as {_shown(plain)}: {difference}"
    outcome = replay_partitioned(with_expectation(case), setting)
    return "; ".join(outcome.differences) if outcome.status == "failed" else None


def is_valid(case: Case) -> bool:
    """Whether the topology of a case can be built."""
    try:
        return bool(Topology(case.topology, {}).app.plan.sources)
    except (DefinitionError, KeyError, StopIteration):
        return False


def _shown(way: Way) -> str:
    fields = msgspec.to_builtins(way)
    return ", ".join(f"{name}={value}" for name, value in fields.items() if value not in ((), [], False))


def _results_difference(ours: Results, theirs: Results) -> str | None:
    for part in theirs:
        for name in sorted({*ours[part], *theirs[part]}):
            if ours[part].get(name) != theirs[part].get(name):
                return f"{part} {name!r}: {ours[part].get(name)}, expected {theirs[part].get(name)}"
    return None


def with_expectation(case: Case) -> Case:
    """Return a case with the results of the test driver, record by record, as the expected ones."""
    topology = Topology(case.topology, {})
    steps: list[list[list[Any]]] = []
    with TestDriver(topology.app) as driver:
        for step in case.steps:
            do_step(step, driver)
            added = new_records(step, driver, lambda topic: any(reads(node, topic) for node in case.topology))
            steps.append([[topic, *record] for topic, records in added.items() for record in records])
        stores = {name: {"type": "key_value", "entries": [[None] * 3]} for name in driver.tables}
        for name, store in stores.items():
            store["entries"] = store_entries(case, name, store, driver)
    expect = Expectation(steps=steps, stores=stores)
    return msgspec.structs.replace(case, expect=expect)
