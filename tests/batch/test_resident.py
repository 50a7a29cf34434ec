"""A resident task without Spark: when it leaves, what it tells, and that it holds the lease."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.batch.conftest import ALL, counts

from millstream.batch.assembly import Assembly
from millstream.batch.journal import Journal
from millstream.batch.lease import Lease
from millstream.batch.planner import BatchSize, Planner
from millstream.batch.report import BatchReport
from millstream.batch.resident import Residence, reside
from millstream.batch.wire import DriverEnd
from millstream.broker import Output
from millstream.errors import AlreadyRunningError
from millstream.foundation.blocks import block_of
from millstream.log import EmbeddedLog

Stay = Callable[..., threading.Thread]
PATIENCE = 60.0


@pytest.fixture
def wire() -> Iterator[DriverEnd]:
    with DriverEnd() as wire:
        yield wire


@pytest.fixture
def stay(assembly: Assembly, wire: DriverEnd, tmp_path: Path) -> Iterator[Stay]:
    """Start a resident task in a thread of this process."""
    threads: list[threading.Thread] = []

    def start(**terms: Any) -> threading.Thread:
        residence = Residence(
            journal=str(tmp_path / "journal"),
            lease=str(tmp_path / "lease"),
            wire=wire.address,
            **{"until": "stopped", "seconds": 600.0, "most": 100, **terms},
        )
        threads.append(threading.Thread(target=reside, args=(assembly, residence)))
        threads[-1].start()
        return threads[-1]

    yield start
    wire.close()
    for thread in threads:
        thread.join(PATIENCE)


def hear(wire: DriverEnd) -> BatchReport:
    report = wire.report(PATIENCE)
    while report is None:  # the call was answered
        report = wire.report(PATIENCE)
    return report


def add(log: EmbeddedLog, records: int) -> None:
    log.append([Output("n", 0, block_of([b"k"] * records, [b"1"] * records, [9] * records))])


def left(thread: threading.Thread) -> bool:
    thread.join(PATIENCE)
    return not thread.is_alive()


def test_it_wakes_on_records_and_tells_of_each_batch(stay: Stay, wire: DriverEnd, log: EmbeddedLog) -> None:
    stay()
    assert hear(wire).records_in == 10
    add(log, 1)
    report = hear(wire)
    assert (report.plan.number, report.records_in, report.records_out) == (2, 1, 1)
    assert counts(log) == [*ALL, b"11"]


def test_it_leaves_when_it_is_asked(stay: Stay, wire: DriverEnd) -> None:
    thread = stay()
    hear(wire)
    wire.ask_to_leave()
    assert left(thread)


def test_it_leaves_when_the_driver_is_gone(stay: Stay, wire: DriverEnd) -> None:
    thread = stay()
    hear(wire)
    wire.close()
    assert left(thread)


def test_it_leaves_when_its_time_is_up(stay: Stay) -> None:
    assert left(stay(seconds=0.3))


def test_it_leaves_a_burst_to_the_driver(stay: Stay, wire: DriverEnd, log: EmbeddedLog, tmp_path: Path) -> None:
    thread = stay(most=20)
    hear(wire)
    add(log, 21)
    assert left(thread)
    progress, planned = Journal(tmp_path / "journal", durable=False).read()
    assert (progress.done, planned) == (1, None)
    assert counts(log) == ALL


def test_it_ends_when_all_is_read_if_that_is_wanted(stay: Stay, log: EmbeddedLog) -> None:
    assert left(stay(until="caught-up"))
    assert counts(log) == ALL


def test_it_holds_the_lease_while_it_stays(stay: Stay, wire: DriverEnd, tmp_path: Path) -> None:
    thread = stay()
    hear(wire)
    lease = Lease("test", tmp_path / "lease")
    with pytest.raises(AlreadyRunningError):
        lease.take(patience=0)
    wire.ask_to_leave()
    assert left(thread)
    lease.take(patience=0)
    lease.give_back()


def test_a_batch_that_was_planned_by_the_driver_comes_first(
    stay: Stay, wire: DriverEnd, log: EmbeddedLog, tmp_path: Path
) -> None:
    journal = Journal(tmp_path / "journal", durable=False)
    progress, _ = journal.read()
    plan = Planner(log, ["n"], BatchSize(4, 1.0)).plan(progress)
    assert plan is not None
    journal.write(progress, plan)
    stay()
    assert hear(wire).plan == plan
    assert hear(wire).records_in == 10 - plan.records
