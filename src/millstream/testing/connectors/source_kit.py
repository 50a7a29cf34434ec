"""The kit that every source has to pass: it may be read again from any position, and dies at any step."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, TypeAlias

from millstream.connect.protocols import Source
from millstream.records import Record
from millstream.testing.connectors.bench import Bench


class SourceSystem:
    """What the author of a source provides: a system with one table, empty when it is made."""

    topic: str
    """The topic that the source fills from the table."""
    patience: float = 60.0
    """How many seconds without a record mean that there is none, if fewer than those of the loop."""

    def source(self) -> Source:
        """Return a new source that reads the system; it continues where its position says."""
        raise NotImplementedError

    def change(self, key: str, number: int | None) -> None:
        """Set the number of a key in a transaction, or delete the key."""
        raise NotImplementedError

    def number_of(self, record: Record[bytes | None, bytes | None]) -> int | None:
        """Return the number in a record, None for a deleted key."""
        raise NotImplementedError


MakeSystem: TypeAlias = Callable[[], SourceSystem]


def check_source(case: str, make: MakeSystem, directory: Path) -> Literal["passed"]:
    """Run a case; raise an ``AssertionError`` that says what the source did wrong."""
    SOURCE_CASES[case](make, directory)
    return "passed"


def _run(system: SourceSystem, bench: Bench, die_at: int | None = None) -> bool:
    return bench.run_source(system.source(), die_at=die_at, patience=system.patience)


def _change(system: SourceSystem, numbers: range) -> None:
    for number in numbers:
        system.change(f"k{number % 3}", number)


def _read(system: SourceSystem, bench: Bench) -> dict[Any, list[int | None]]:
    by_key: dict[Any, list[int | None]] = {}
    for record in bench.records(system.topic):
        by_key.setdefault(record.key, []).append(system.number_of(record))
    return by_key


def _check(system: SourceSystem, bench: Bench, count: int, what: str) -> None:
    read = _read(system, bench)
    expected = [[number for number in range(count) if number % 3 == key] for key in range(3)]
    assert sorted(read.values(), key=str) == sorted(expected, key=str), f"{what}: the topic has {read!r}"


def _reads_every_change(make: MakeSystem, directory: Path) -> None:
    system, bench = make(), Bench(directory)
    _run(system, bench)  # it may have to register before it sees changes
    _change(system, range(6))
    _run(system, bench)
    _change(system, range(6, 12))
    _run(system, bench)
    _check(system, bench, 12, "three runs")


def _reads_tombstones(make: MakeSystem, directory: Path) -> None:
    system, bench = make(), Bench(directory)
    _run(system, bench)
    system.change("k0", 1)
    system.change("k0", None)
    _run(system, bench)
    read = list(_read(system, bench).values())
    assert read == [[1, None]], f"a deleted key: the topic has {read!r}"


def _survives_death_at_each_step(make: MakeSystem, directory: Path) -> None:
    for die_at in range(1, 200):
        system, bench = make(), Bench(directory / str(die_at))
        _run(system, bench)
        _change(system, range(6))
        has_ended = _run(system, bench, die_at)
        step = bench.steps.passed[-1]
        _change(system, range(6, 9))
        assert _run(system, bench)
        _check(system, bench, 9, f"the process died at step {die_at}, {step}")
        if has_ended:
            return
    raise AssertionError("the source does not come to an end")


SOURCE_CASES: dict[str, Callable[[MakeSystem, Path], None]] = {
    "every change": _reads_every_change,
    "tombstones": _reads_tombstones,
    "death at each step": _survives_death_at_each_step,
}
