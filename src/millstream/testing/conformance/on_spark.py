"""Replay cases on Spark: a few of each group record by record, and on any number of partitions as one batch.

Each batch is a Spark job, so many cases run as one app: this takes minutes and not hours.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from millstream.errors import MillstreamError
from millstream.plan.processors import PROCESSORS
from millstream.plan.topology import Plan
from millstream.tables.rows import TableReader
from millstream.testing.batch_driver import Mode
from millstream.testing.conformance.cases import Case
from millstream.testing.conformance.guarantees import Guarantee, guarantee_of
from millstream.testing.conformance.partitioned import Setting, outcome_at, partitioned_differences
from millstream.testing.conformance.replay import Outcome, do_step, replay
from millstream.testing.conformance.topology import Topology
from millstream.testing.driver import TestDriver
from millstream.testing.spark_driver import SparkDriver
from millstream.testing.topic import TestTopic

_MAX_CASES = 40
_MAX_RECORDS = 1_500
_NAME_FIELDS = ("id", "in", "topic", "topics", "prefix", "store", "stores", "name", "default", "global")


def replay_on_spark(case: Case) -> Outcome:
    """Replay a case with one run of the app, and one batch, for each record."""
    reason = _unsupported_reason(case)
    if reason is not None:
        return Outcome(case.id, case.group, "unsupported", (reason,))
    return replay(case, lambda app, caching: SparkDriver(app, caching=caching))


def sample(cases: Iterable[Case], count: int = 60) -> list[Case]:
    """Choose at least ``count`` cases that run on Spark: the shortest of each group, then the next shortest."""
    groups: dict[str, list[Case]] = defaultdict(list)
    for case in sorted(cases, key=lambda case: (len(case.steps), case.id)):
        groups[case.group].append(case)
    supported = [(case for case in group if _unsupported_reason(case) is None) for group in groups.values()]
    chosen: list[Case] = []
    while len(chosen) < count:
        shortest = [case for group in supported for case in islice(group, 1)]
        if not shortest:
            break
        chosen += shortest
    return chosen


def _unsupported_reason(case: Case) -> str | None:
    """Return why a case cannot run on Spark as it does on the test driver, None if it can."""
    if any("pipe" not in step for step in case.steps):
        return "on Spark the wall clock cannot be set"
    plan = _plan_of(case)
    if plan is not None and len(plan.stages) > 1 and any(isinstance(node, PROCESSORS) for node in plan.nodes):
        return "on Spark each stage has its own stream time"
    return None


def _plan_of(case: Case) -> Plan | None:
    try:
        return Topology(case.topology, case.config or {}).app.plan
    except MillstreamError:
        return None


def replay_whole(cases: Iterable[Case], partitions: int = 1, mode: Mode = "single") -> Iterator[Outcome]:
    """Replay cases, each as one batch, many of them in one app, after the outcomes of those that are not comparable."""
    guarantees: dict[str, Guarantee] = {}
    comparable: list[Case] = []
    for case in cases:
        guarantee = guarantee_of(case, partitions, large=True)
        if isinstance(guarantee, str):
            yield Outcome(case.id, case.group, "not comparable", (guarantee,))
            continue
        guarantees[case.id] = guarantee
        comparable.append(case)
    for group in _grouped(comparable):
        yield from _replay_together(group, guarantees, partitions, mode)


def _grouped(cases: Iterable[Case]) -> Iterator[list[Case]]:
    group: list[Case] = []
    for case in cases:
        if any("pattern" in node or "forward" in node.get("processor", "") for node in case.topology):
            yield [case]  # names are part of its arguments, so they cannot get a prefix
            continue
        records = sum(len(each.steps) for each in (*group, case))
        if group and (len(group) == _MAX_CASES or records > _MAX_RECORDS):
            yield group
            group = []
        group.append(case)
    if group:
        yield group


def _replay_together(
    cases: list[Case], guarantees: Mapping[str, Guarantee], partitions: int, mode: Mode
) -> list[Outcome]:
    """Run cases as one app; if that fails, run each of them alone, to find the one that fails."""
    prefixes = {case.id: f"c{number}-" if len(cases) > 1 else "" for number, case in enumerate(cases)}
    nodes = [_prefixed(node, prefixes[case.id]) for case in cases for node in case.topology]
    try:
        with SparkDriver(Topology(nodes, {}).app, partitions=partitions, mode=mode) as driver:
            with driver.holding():
                for case in cases:
                    _pipe(case, prefixes[case.id], driver)
            outputs = {case.id: CaseOutputs(driver, prefixes[case.id]) for case in cases}
            setting = Setting(partitions, True, mode)
            return [_outcome(case, setting, guarantees[case.id], outputs[case.id]) for case in cases]
    except MillstreamError as error:
        if len(cases) > 1:
            return [outcome for case in cases for outcome in _replay_together([case], guarantees, partitions, mode)]
        return [Outcome(cases[0].id, cases[0].group, "failed", (f"{type(error).__name__}: {error}",))]


def _prefixed(node: dict[str, Any], prefix: str) -> dict[str, Any]:
    """Return a node with prefixed names, so that cases do not share any."""

    def prefixed(value: Any) -> Any:
        return [prefix + name for name in value] if isinstance(value, list) else prefix + value

    if "versioned_history_ms" in node:
        node = {"store": f"versioned-{node['id']}", **node}  # the name that it would otherwise derive from its id
    changed = {name: prefixed(value) if name in _NAME_FIELDS else value for name, value in node.items()}
    if "branches" in node:
        changed["branches"] = [{**branch, "id": prefix + branch["id"]} for branch in node["branches"]]
    return changed


def _pipe(case: Case, prefix: str, driver: TestDriver) -> None:
    for step in case.steps:
        topic, *record = step["pipe"]
        do_step({"pipe": [prefix + topic, *record]}, driver)


class CaseOutputs:
    """The topics and tables of one case in a shared driver, by their names in the case."""

    def __init__(self, driver: TestDriver, prefix: str) -> None:
        self._driver = driver
        self._prefix = prefix
        read = driver.app.plan.source_topics
        self.topics = [
            topic.removeprefix(prefix) for topic in driver.topics if topic.startswith(prefix) and topic not in read
        ]

    def topic(self, name: str) -> TestTopic:
        return self._driver.topic(self._prefix + name)

    def table(self, name: str) -> TableReader:
        return self._driver.table(self._prefix + name)


def _outcome(case: Case, setting: Setting, guarantee: Guarantee, outputs: CaseOutputs) -> Outcome:
    differences = partitioned_differences(case, setting.partitions, guarantee, outputs)
    return outcome_at(setting, case, differences)
