"""The oracle: the results that the topologies must have for their input, computed in plain Python."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
from tests.crash.events import KEYS, Event
from tests.crash.topologies import NEAR_MS

from millstream import Windowed
from millstream.broker import Broker
from millstream.tables.opening import open_tables

Outputs = dict[str, list[Any]]
"""The values that were written for each key, in order."""


class TrialResult(msgspec.Struct, kw_only=True):
    """The differences from the oracle; a trial is correct if there are none."""

    records: int = 0
    losses: int = 0
    duplicates: int = 0
    disagreements: int = 0
    notes: list[str] = []

    @property
    def is_correct(self) -> bool:
        return not (self.losses or self.duplicates or self.disagreements)

    def compare(self, subject: str, actual: Iterable[Any], expected: Iterable[Any]) -> None:
        """Count the records that are missing, and those that are there too often."""
        actual_counts, expected_counts = Counter(actual), Counter(expected)
        self.records += expected_counts.total()
        lost, duplicated = (expected_counts - actual_counts).total(), (actual_counts - expected_counts).total()
        self.losses += lost
        self.duplicates += duplicated
        if lost or duplicated:
            self.notes.append(f"{subject}: {lost} lost, {duplicated} duplicated")

    def agree(self, subject: str, left: Any, right: Any) -> None:
        """Count two views of the same data that differ."""
        if left != right:
            self.disagreements += 1
            self.notes.append(f"{subject}: {str(left)[:200]} is not {str(right)[:200]}")


def check(directory: Path, broker: Broker, sent: list[Event], apps: Iterable[str] | None = None) -> TrialResult:
    """Compare the outputs and tables of apps that have processed everything with the events that were sent."""
    result = TrialResult()
    for app in apps or CHECKS:
        outputs = written(broker, f"{app}-out")
        CHECKS[app](result, outputs, sent)
        if app == "stateless":
            _stateless(result, written(broker, "stateless-copy"), sent)
        if app in TABLES:
            rows = {_text(key): row for key, row in open_tables(directory, app)[TABLES[app]].items()}
            last = {key: values[-1] for key, values in outputs.items() if values[-1] is not None}
            result.agree(f"table and topic of {app}", rows, last)
    return result


def written(broker: Broker, topic: str) -> Outputs:
    """Return everything that was written to a topic."""
    outputs: Outputs = defaultdict(list)
    for partition, offsets in enumerate(broker.offsets(topic)):
        for chunk in broker.read(topic, partition, offsets.begin, offsets.end):
            for key, value in zip(chunk.block.column(0).to_pylist(), chunk.block.column(1).to_pylist(), strict=True):
                outputs[key.decode()].append(None if value is None else msgspec.json.decode(value))
    return outputs


def _text(key: Any) -> str:
    return f"{key.key}/{key.start}" if isinstance(key, Windowed) else str(key)


def _of(sent: list[Event], topic: str) -> Iterator[Event]:
    return (event for event in sent if event.topic == topic)


def _counts(result: TrialResult, subject: str, written: Outputs, expected: Counter[str]) -> None:
    """The updates of a count must be 1, 2, 3 … up to the expected count."""
    actual = [(key, value) for key, values in written.items() for value in values]
    result.compare(subject, actual, [(key, n) for key, total in expected.items() for n in range(1, total + 1)])
    result.agree(f"order of {subject}", {key: sorted(values) for key, values in written.items()}, dict(written))


def _stateless(result: TrialResult, written: Outputs, sent: list[Event]) -> None:
    events = {key: [msgspec.convert(value, Event) for value in values] for key, values in written.items()}
    result.compare("stateless", (event for group in events.values() for event in group), _of(sent, "events"))
    numbers = {key: [event.number for event in group] for key, group in events.items()}
    result.agree("order of stateless", numbers, {key: sorted(group) for key, group in numbers.items()})
    result.agree("checksums", all(event.is_whole for group in events.values() for event in group), True)


def _two_levels(result: TrialResult, written: Outputs, sent: list[Event]) -> None:
    _counts(result, "two levels", written, Counter(str(event.value % 13) for event in _of(sent, "events")))


def _three_levels(result: TrialResult, written: Outputs, sent: list[Event]) -> None:
    first = Counter(event.value % 13 for event in _of(sent, "events"))
    reached = Counter(str(count) for total in first.values() for count in range(1, total + 1))
    _counts(result, "three levels", written, reached)


def _windowed(result: TrialResult, written: Outputs, sent: list[Event]) -> None:
    windows = Counter(f"{event.key}/{event.at // 200 * 200}" for event in _of(sent, "events"))
    _counts(result, "windows", written, windows)


def _pairs(result: TrialResult, written: Outputs, sent: list[Event]) -> None:
    sides: dict[str, list[Event]] = defaultdict(list)
    for side in _of(sent, "sides"):
        sides[side.key].append(side)
    expected = [
        (event.key, event.number, side.number)
        for event in _of(sent, "events")
        for side in sides[event.key]
        if abs(event.at - side.at) <= NEAR_MS
    ]
    result.compare("pairs", ((key, *value) for key, values in written.items() for value in values), expected)


def _newest(sent: list[Event], topic: str) -> dict[str, Event]:
    return {event.key: event for event in _of(sent, topic)}


def _joined(partner: Callable[[Event], str]) -> Callable[[TrialResult, Outputs, list[Event]], None]:
    def check_rows(result: TrialResult, written: Outputs, sent: list[Event]) -> None:
        events, sides = _newest(sent, "events"), _newest(sent, "sides")
        expected = {
            key: [event.number, sides[partner(event)].number]
            for key, event in events.items()
            if partner(event) in sides
        }
        last = {key: values[-1] for key, values in written.items() if values[-1] is not None}
        result.records += len(expected)
        result.agree("newest rows", last, expected)

    return check_rows


def _tables(result: TrialResult, written: Outputs, sent: list[Event]) -> None:
    _joined(lambda event: event.key)(result, written, sent)
    repeats = sum(value == following for values in written.values() for value, following in pairwise(values))
    result.duplicates += repeats  # each change of either side gives a different pair


def _chance(result: TrialResult, written: Outputs, sent: list[Event]) -> None:
    total = sum(1 for _ in _of(sent, "events"))
    actual = Counter({key: len(values) for key, values in written.items()})
    _counts(result, "chance", written, actual)
    result.compare("events by chance", range(actual.total()), range(total))


CHECKS: dict[str, Callable[[TrialResult, Outputs, list[Event]], None]] = {
    "stateless": _stateless,
    "two_levels": _two_levels,
    "three_levels": _three_levels,
    "windowed": _windowed,
    "pairs": _pairs,
    "tables": _tables,
    "foreign": _joined(lambda event: f"k{event.value % KEYS}"),
    "chance": _chance,
}
TABLES = {
    "two_levels": "thirteenths",
    "three_levels": "reached",
    "windowed": "per_window",
    "tables": "joined",
    "foreign": "found",
    "chance": "groups",
}
"""The table of each app that must have the same rows as its topic."""
