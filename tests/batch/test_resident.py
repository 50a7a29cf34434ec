"""A resident task without Spark: when it returns, what it reports, and that it holds the lease."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.batch.conftest import ALL, counts

from millstream.batch import control_socket
from millstream.batch.assembly import Assembly
from millstream.batch.control_socket import DriverSocket
from millstream.batch.journal import Journal
from millstream.batch.lease import Lease
from millstream.batch.planner import BatchSize, Planner
from millstream.batch.report import BatchReport
from millstream.batch.resident import ResidentSettings, run_resident_task
from millstream.broker import Output
from millstream.errors import AlreadyRunningError
from millstream.foundation.blocks import block_of
from millstream.log import EmbeddedLog

Start = Callable[..., threading.Thread]
PATIENCE = 60.0


@pytest.fixture
def control() -> Iterator[DriverSocket]:
    with DriverSocket() as control:
        yield control


@pytest.fixture
def start(assembly: Assembly, control: DriverSocket, tmp_path: Path) -> Iterator[Start]:
    """Start a resident task in a thread of this process."""
    threads: list[threading.Thread] = []

    def start(**options: Any) -> threading.Thread:
        settings = ResidentSettings(
            journal=str(tmp_path / "journal"),
            lease=str(tmp_path / "lease"),
            socket=control.address,
            **{"until": "stopped", "seconds": 600.0, "max_records": 100, **options},
        )
        threads.append(threading.Thread(target=run_resident_task, args=(assembly, settings)))
        threads[-1].start()
        return threads[-1]

    yield start
    control.close()
    for thread in threads:
        thread.join(PATIENCE)


def receive(control: DriverSocket) -> BatchReport:
    report = control.receive_report(PATIENCE)
    while report is None:  # the first call only accepts the connection
        report = control.receive_report(PATIENCE)
    return report


def add(log: EmbeddedLog, records: int) -> None:
    log.append([Output("n", 0, block_of([b"k"] * records, [b"1"] * records, [9] * records))])


def has_returned(thread: threading.Thread) -> bool:
    thread.join(PATIENCE)
    return not thread.is_alive()


def test_it_wakes_on_records_and_reports_each_batch(start: Start, control: DriverSocket, log: EmbeddedLog) -> None:
    start()
    assert receive(control).records_in == 10
    add(log, 1)
    report = receive(control)
    assert (report.plan.number, report.records_in, report.records_out) == (2, 1, 1)
    assert counts(log) == [*ALL, b"11"]


def test_it_lets_the_driver_know_that_it_waits_for_records(
    start: Start, control: DriverSocket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control_socket, "_WAITING_SECONDS", 0.0)
    waits: list[int] = []
    control.on_waiting = lambda: waits.append(1)
    start()
    deadline = time.monotonic() + 30
    while len(waits) < 3 and time.monotonic() < deadline:
        control.receive_report(1.0)
    assert len(waits) >= 3


def test_it_returns_when_the_driver_requests_it(start: Start, control: DriverSocket) -> None:
    thread = start()
    receive(control)
    control.request_stop()
    assert has_returned(thread)


def test_it_returns_when_the_driver_is_gone(start: Start, control: DriverSocket) -> None:
    thread = start()
    receive(control)
    control.close()
    assert has_returned(thread)


def test_it_returns_when_its_time_is_up(start: Start) -> None:
    assert has_returned(start(seconds=0.3))


def test_it_leaves_a_burst_to_the_driver(start: Start, control: DriverSocket, log: EmbeddedLog, tmp_path: Path) -> None:
    thread = start(max_records=20)
    receive(control)
    add(log, 21)
    assert has_returned(thread)
    progress, planned = Journal(tmp_path / "journal", durable=False).read()
    assert (progress.done, planned) == (1, None)
    assert counts(log) == ALL


def test_it_returns_when_it_has_caught_up(start: Start, log: EmbeddedLog) -> None:
    assert has_returned(start(until="caught-up"))
    assert counts(log) == ALL


def test_it_holds_the_lease_until_it_returns(start: Start, control: DriverSocket, tmp_path: Path) -> None:
    thread = start()
    receive(control)
    lease = Lease("test", tmp_path / "lease")
    with pytest.raises(AlreadyRunningError):
        lease.acquire(patience=0)
    control.request_stop()
    assert has_returned(thread)
    lease.acquire(patience=0)
    lease.release()


def test_it_first_runs_a_batch_that_the_driver_has_planned(
    start: Start, control: DriverSocket, log: EmbeddedLog, tmp_path: Path
) -> None:
    journal = Journal(tmp_path / "journal", durable=False)
    progress, _ = journal.read()
    batch = Planner(log, ["n"], BatchSize(4, 1.0)).plan(progress)
    assert batch is not None
    journal.write(progress, batch)
    start()
    assert receive(control).plan == batch
    assert receive(control).records_in == 10 - batch.records
