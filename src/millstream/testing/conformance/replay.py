"""Replay a case on the test driver and compare the results with those of Kafka Streams."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, TypeAlias

import msgspec

from millstream.app import App
from millstream.errors import MillstreamError
from millstream.plan.sources import Source
from millstream.plan.stateful import AGGREGATIONS
from millstream.testing.conformance.cases import Case
from millstream.testing.conformance.comparing import last_per_key, new_records, step_difference, store_differences
from millstream.testing.conformance.queries import query_differences
from millstream.testing.conformance.topology import Topology, UnsupportedCaseError
from millstream.testing.driver import TestDriver

Start: TypeAlias = Callable[[App, bool], TestDriver]
"""Starts an app, with caching or without."""


class Outcome(msgspec.Struct, frozen=True):
    """The outcome of a case: passed, failed with the differences, or unsupported with the reason."""

    case: str
    group: str
    status: str
    differences: tuple[str, ...] = ()
    drops: str = ""
    """A difference in the number of dropped records; it does not make a case fail."""


def replay(case: Case, start: Start | None = None) -> Outcome:
    """Replay a case on the test driver, or on the driver that ``start`` returns."""
    run = Replay(case, start or _on_driver)
    try:
        differences = run.differences()
    except UnsupportedCaseError as error:
        return Outcome(case.id, case.group, "unsupported", (str(error),))
    except Exception as error:
        return Outcome(case.id, case.group, "failed", (f"unexpected error: {type(error).__name__}: {error}",))
    return Outcome(case.id, case.group, "failed" if differences else "passed", tuple(differences), run.drops)


def _on_driver(app: App, caching: bool) -> TestDriver:
    return TestDriver(app, caching=caching, one_stream_time=True)


class Replay:
    """The replay of one case."""

    def __init__(self, case: Case, start: Start) -> None:
        self._case = case
        self._start = start
        self._config = case.config or {}
        self.drops = ""
        self._sources: tuple[Source, ...] = ()

    def differences(self) -> list[str]:
        """Return the differences from the results of Kafka Streams."""
        try:
            topology = Topology(self._case.topology, self._config)
            self._sources = topology.app.plan.sources
            driver = self._start(topology.app, bool(self._config.get("cache")))
        except UnsupportedCaseError:
            raise
        except MillstreamError as error:
            return self._check_error(error, "build")
        with driver:
            return self._run(driver)

    def _run(self, driver: TestDriver) -> list[str]:
        if self._case.expect.final is not None:
            return self._final_differences(driver)
        for number, step in enumerate(self._case.steps):
            try:
                do_step(step, driver)
            except MillstreamError as error:
                return self._check_error(error, "step", number) or self._failing_step(step, driver)
            difference = self._step_difference(number, step, driver)
            if difference is not None:
                return [difference]
        if self._case.expect.error is not None:
            return [f"there was no error, expected {self._case.expect.error}"]
        self._compare_drops(driver)
        return [
            *store_differences(self._case, self._case.expect.stores, driver),
            *query_differences(self._case, driver),
        ]

    def _final_differences(self, driver: TestDriver) -> list[str]:
        """Compare the final result of a case with caching: each store and topic is as with or without Kafka's cache.

        The case files know two schedules of commits: one commit after the last step, and none. Our cache forwards
        changes with each batch, and the driver runs one batch per record: a third schedule, as if Kafka Streams
        committed after each step, which only answers to random cases have.
        """
        expect = self._case.expect
        alternatives = [answer for answer in (expect.uncached, expect.committed) if answer is not None]
        answers = [{"final": expect.final, "stores": expect.stores}, *alternatives]
        return list(self._differences_from(answers, driver).values())

    def _differences_from(self, answers: list[dict[str, Any]], driver: TestDriver) -> dict[str, str]:
        """Run all steps; return the differences by store and topic. Each may be as any of the answers has it."""
        records = dict[str, list[list[Any]]]()
        for step in self._case.steps:
            do_step(step, driver)
            for topic, added in new_records(step, driver, self._is_text).items():
                records.setdefault(topic, []).extend(record[:3] for record in added)
        differences: dict[str, str] = {}
        for store in self._case.expect.stores:
            results = [store_differences(self._case, {store: answer["stores"][store]}, driver) for answer in answers]
            if all(results):
                differences[f"store {store}"] = results[-1][0]
        for topic in sorted({*records, *(topic for answer in answers for topic in answer["final"])}):
            ours = [record for record in last_per_key(records.get(topic, [])) if record[1] is not None]
            expected = [answer["final"].get(topic, []) for answer in answers]
            if ours not in expected:
                differences[f"topic {topic}"] = f"topic {topic!r} ends with {ours}, expected {expected[-1]}"
        return differences

    def _is_text(self, topic: str) -> bool:
        return topic == self._config.get("dead_letter_topic") or any(source.reads(topic) for source in self._sources)

    def _step_difference(self, number: int, step: dict[str, Any], driver: TestDriver) -> str | None:
        case, actual = self._case, new_records(step, driver, self._is_text)
        expected = case.expect.steps[number] if number < len(case.expect.steps) else []
        difference = step_difference(actual, expected, case.compare, headers=case.headers)
        return None if difference is None else f"step {number} {msgspec.json.encode(step).decode()}: {difference}"

    def _check_error(self, error: MillstreamError, phase: str, step: int | None = None) -> list[str]:
        """Compare an error with the expected one: it must occur in the same phase; build and start count as one."""
        expected = self._case.expect.error
        same_phase = expected is not None and (expected["phase"] == "step") is (phase == "step")
        if expected is not None and same_phase and expected.get("step") == step:
            return []
        location = phase if step is None else f"step {step}"
        return [f"{location} failed, expected {expected}: {type(error).__name__}: {error}"]

    def _failing_step(self, step: dict[str, Any], driver: TestDriver) -> list[str]:
        """Compare the dead letters of a failed step; unlike Kafka, Millstream does not publish its other records."""
        topic = self._config.get("dead_letter_topic")
        expected = [record for record in self._case.expect.failing_step or [] if record[0] == topic]
        actual = {name: records for name, records in new_records(step, driver, self._is_text).items() if name == topic}
        difference = step_difference(actual, expected, {}, headers=self._case.headers)
        return [] if difference is None else [f"the failing step: {difference}"]

    def _compare_drops(self, driver: TestDriver) -> None:
        """Compare the number of drops; like Kafka Streams, do not count null keys before an edge, nor missing rows.

        An edge passes null keys if a left join reads it too; the aggregations that read it then drop them.
        """
        plan = driver.app.plan
        edges = [node for stage in plan.stages for node in stage.edges_out]
        inserted = [edge for edge in edges if edge.null_keys and "-repartition" in (edge.name or "")]
        behind = [reader for edge in inserted for reader, _ in plan.readers[edge] if isinstance(reader, AGGREGATIONS)]
        uncounted = {f"{node.name}: null_key" for node in (*edges, *behind)}
        uncounted |= {reason for reason in driver.dropped if reason.endswith(": no_row")}
        dropped = sum(number for reason, number in driver.dropped.items() if reason not in uncounted)
        expected = self._case.expect.dropped
        if expected is not None and dropped != expected:
            self.drops = f"dropped {dict(driver.dropped)}, expected {expected}"


def do_step(step: dict[str, Any], driver: TestDriver) -> None:
    """Pipe a record, or advance the wall clock."""
    if "pipe" in step:
        topic, key, value, timestamp, *headers = step["pipe"]
        driver.topic(topic).pipe_raw(
            None if value is None else value.encode(),
            key=None if key is None else key.encode(),
            timestamp=timestamp,
            headers=tuple((name, text.encode()) for name, text in (headers[0] if headers else ())),
        )
    else:
        driver.advance_wall_clock(timedelta(milliseconds=step["advance_wall_clock_ms"]))
