"""What the topologies must have given for the events that they were fed with, computed in plain Python."""

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


class Verdict(msgspec.Struct, kw_only=True):
    """What was found wrong; a trial is good if all are 0."""

    records: int = 0
    losses: int = 0
    duplicates: int = 0
    disagreements: int = 0
    notes: list[str] = []

    @property
    def is_good(self) -> bool:
        return not (self.losses or self.duplicates or self.disagreements)

    def compare(self, what: str, found: Iterable[Any], expected: Iterable[Any]) -> None:
        """Count what is missing, and what is there more often than it should be."""
        there, wanted = Counter(found), Counter(expected)
        self.records += sum(wanted.values())
        lost, doubled = (wanted - there).total(), (there - wanted).total()
        self.losses += lost
        self.duplicates += doubled
        if lost or doubled:
            self.notes.append(f"{what}: {lost} lost, {doubled} doubled")

    def agree(self, what: str, one: Any, other: Any) -> None:
        """Count two views of the same thing that differ."""
        if one != other:
            self.disagreements += 1
            self.notes.append(f"{what}: {str(one)[:200]} is not {str(other)[:200]}")


def check(directory: Path, broker: Broker, sent: list[Event], apps: Iterable[str] | None = None) -> Verdict:
    """Hold outputs and tables of apps that have processed everything against the events that were sent."""
    verdict = Verdict()
    for app in apps or LAWS:
        written = _written(broker, f"{app}-out")
        LAWS[app](verdict, written, sent)
        if app == "stateless":
            _stateless(verdict, _written(broker, "stateless-copy"), sent)
        if app in TABLES:
            rows = {_text(key): row for key, row in open_tables(directory, app)[TABLES[app]].items()}
            last = {key: values[-1] for key, values in written.items() if values[-1] is not None}
            verdict.agree(f"table and topic of {app}", rows, last)
    return verdict


def _written(broker: Broker, topic: str) -> Outputs:
    found: Outputs = defaultdict(list)
    for partition, offsets in enumerate(broker.offsets(topic)):
        for chunk in broker.read(topic, partition, offsets.begin, offsets.end):
            for key, value in zip(chunk.block.column(0).to_pylist(), chunk.block.column(1).to_pylist(), strict=True):
                found[key.decode()].append(None if value is None else msgspec.json.decode(value))
    return found


def _text(key: Any) -> str:
    return f"{key.key}/{key.start}" if isinstance(key, Windowed) else str(key)


def _of(sent: list[Event], topic: str) -> Iterator[Event]:
    return (event for event in sent if event.topic == topic)


def _counts(verdict: Verdict, what: str, written: Outputs, expected: Counter[str]) -> None:
    """The updates of a count are 1, 2, 3 … up to what it should be."""
    found = [(key, value) for key, values in written.items() for value in values]
    verdict.compare(what, found, [(key, n) for key, total in expected.items() for n in range(1, total + 1)])
    verdict.agree(f"order of {what}", {key: sorted(values) for key, values in written.items()}, dict(written))


def _stateless(verdict: Verdict, written: Outputs, sent: list[Event]) -> None:
    events = {key: [msgspec.convert(value, Event) for value in values] for key, values in written.items()}
    verdict.compare("stateless", (one for each in events.values() for one in each), _of(sent, "events"))
    numbers = {key: [one.number for one in each] for key, each in events.items()}
    verdict.agree("order of stateless", numbers, {key: sorted(each) for key, each in numbers.items()})
    verdict.agree("checksums", all(one.is_whole for each in events.values() for one in each), True)


def _two_levels(verdict: Verdict, written: Outputs, sent: list[Event]) -> None:
    _counts(verdict, "two levels", written, Counter(str(one.value % 13) for one in _of(sent, "events")))


def _three_levels(verdict: Verdict, written: Outputs, sent: list[Event]) -> None:
    first = Counter(one.value % 13 for one in _of(sent, "events"))
    reached = Counter(str(count) for total in first.values() for count in range(1, total + 1))
    _counts(verdict, "three levels", written, reached)


def _windowed(verdict: Verdict, written: Outputs, sent: list[Event]) -> None:
    windows = Counter(f"{one.key}/{one.at // 200 * 200}" for one in _of(sent, "events"))
    _counts(verdict, "windows", written, windows)


def _pairs(verdict: Verdict, written: Outputs, sent: list[Event]) -> None:
    sides: dict[str, list[Event]] = defaultdict(list)
    for one in _of(sent, "sides"):
        sides[one.key].append(one)
    expected = [
        (event.key, event.number, side.number)
        for event in _of(sent, "events")
        for side in sides[event.key]
        if abs(event.at - side.at) <= NEAR_MS
    ]
    verdict.compare("pairs", ((key, *value) for key, values in written.items() for value in values), expected)


def _newest(sent: list[Event], topic: str) -> dict[str, Event]:
    return {one.key: one for one in _of(sent, topic)}


def _joined(partner: Callable[[Event], str]) -> Callable[[Verdict, Outputs, list[Event]], None]:
    def law(verdict: Verdict, written: Outputs, sent: list[Event]) -> None:
        events, sides = _newest(sent, "events"), _newest(sent, "sides")
        expected = {
            key: [one.number, sides[partner(one)].number] for key, one in events.items() if partner(one) in sides
        }
        last = {key: values[-1] for key, values in written.items() if values[-1] is not None}
        verdict.records += len(expected)
        verdict.agree("newest rows", last, expected)

    return law


def _tables(verdict: Verdict, written: Outputs, sent: list[Event]) -> None:
    _joined(lambda one: one.key)(verdict, written, sent)
    repeats = sum(one == other for values in written.values() for one, other in pairwise(values))
    verdict.duplicates += repeats  # each change of either side gives another pair


def _chance(verdict: Verdict, written: Outputs, sent: list[Event]) -> None:
    total = sum(1 for _ in _of(sent, "events"))
    found = Counter({key: len(values) for key, values in written.items()})
    _counts(verdict, "chance", written, found)
    verdict.compare("events by chance", range(found.total()), range(total))


LAWS: dict[str, Callable[[Verdict, Outputs, list[Event]], None]] = {
    "stateless": _stateless,
    "two_levels": _two_levels,
    "three_levels": _three_levels,
    "windowed": _windowed,
    "pairs": _pairs,
    "tables": _tables,
    "foreign": _joined(lambda one: f"k{one.value % KEYS}"),
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
"""The table of each app that must be what its topic says."""
