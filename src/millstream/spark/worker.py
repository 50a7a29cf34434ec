"""What runs inside Spark's Python workers.

A worker keeps topologies and brokers between jobs; it builds them when it first needs them, so that nothing crosses a
fork. What it yields are pairs of a number and bytes: an arrival for a task (the number), a report, or a failure.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import signal
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
from pyspark import cloudpickle

from millstream.batch.assembly import Assembly
from millstream.batch.execute import ShuffleInputs, Slot, run_batch, run_slot
from millstream.batch.resident import reside
from millstream.broker import Broker
from millstream.broker_urls import open_broker
from millstream.errors import StateError
from millstream.foundation.loading import import_app
from millstream.plan.describe import fingerprint
from millstream.plan.layout import Layout
from millstream.plan.topology import Plan
from millstream.spark.exchange import AbandonedError, Exchange, NotAllHereError
from millstream.spark.failures import Failure
from millstream.spark.header import AppHeader, JobHeader, decode_header, decode_resident_header
from millstream.task.garbage import freeze_loaded_objects
from millstream.task.report import TaskReport
from millstream.task.task_input import ShuffleInput

REPORT = -1
GAVE_UP = -(2**31)
FAILURE = -2
"""A failure for Spark partition p has the number FAILURE - p, so that every partition of a level hears of it."""

Item = tuple[int, bytes]
_encode = msgspec.msgpack.Encoder().encode
_decode_arrival = msgspec.msgpack.Decoder(ShuffleInput).decode
_plans: dict[bytes, Plan] = {}


def destination(number: int) -> int:
    """Return the Spark partition that an item goes to, before it is wrapped around the width of the level."""
    if number >= 0:
        return number
    return 0 if number == REPORT else FAILURE - number


def run_level(header: bytes, level: int, index: int, incoming: Iterator[Item]) -> Iterator[Item]:
    """Run the tasks of one level that belong to one Spark task."""
    job = decode_header(header)
    arrivals: ShuffleInputs = defaultdict(list)
    failures: list[bytes] = []
    for number, data in incoming:
        if number >= 0:
            arrivals[number].append(_decode_arrival(data))
        elif number == REPORT:
            yield REPORT, data
        else:
            failures.append(data)
    try:
        if not failures:
            yield from _run_slot(job, level, index, arrivals)
            for receiver, later in arrivals.items():  # they are for a level further down
                yield from ((receiver, _encode(arrival)) for arrival in later)
    except Exception as error:
        failures.append(_encode(Failure.of(error)))
    following = job.app.widths[level + 1] if level + 1 < len(job.app.widths) else 1
    for data in failures:
        yield from ((FAILURE - partition, data) for partition in range(following))


def _run_slot(job: JobHeader, level: int, index: int, inputs: ShuffleInputs) -> Iterator[Item]:
    slot = Slot(level, index, job.app.widths[level])
    for report, sent in run_slot(_assembly(job.app).environment(), job.plan, job.versions, slot, inputs):
        yield REPORT, _encode(report)
        for receiver, data in sent:
            yield receiver, _encode(data)


def run_levels(header: bytes, place: str, patience: float, index: int, _numbers: Iterable[Any]) -> Iterator[Item]:
    """Run the tasks of all levels that belong to one Spark task; letters go through files in ``place``."""
    job = decode_header(header)
    exchange = Exchange(Path(place), max(job.app.widths), patience)
    try:
        exchange.begin(index)
        yield from _run_exchanging(job, exchange, index)
    except AbandonedError:
        return  # somebody else tells why
    except Exception as error:
        with contextlib.suppress(AbandonedError):
            exchange.fail()
        yield (GAVE_UP, b"") if isinstance(error, NotAllHereError) else (FAILURE, _encode(Failure.of(error)))


def _run_exchanging(job: JobHeader, exchange: Exchange, index: int) -> Iterator[Item]:
    widths = job.app.widths
    layout = Layout(_plan(job.app), job.app.partitions)
    homes = {task: task % width for level, width in enumerate(widths) for task in layout.tasks_on(level)}
    arrivals: ShuffleInputs = defaultdict(list)
    for level, width in enumerate(widths):
        letters: dict[int, list[Item]] = defaultdict(list)
        for number, data in _run_slot(job, level, index, arrivals) if index < width else ():
            if number == REPORT:
                yield number, data
            else:
                letters[homes[number]].append((number, data))
        if level + 1 < len(widths):
            if index < width:
                exchange.post(level, index, letters, max(widths))
            for number, data in exchange.collect(level, width, index):
                arrivals[number].append(_decode_arrival(data))


def run_whole(header: bytes, _incoming: Iterable[Any]) -> Iterator[Item]:
    """Run a whole batch in one Spark task."""
    try:
        job = decode_header(header)
        reports = run_batch(_assembly(job.app).environment(), job.plan, job.versions)
    except Exception as error:
        yield FAILURE, _encode(Failure.of(error))
    else:
        yield from ((REPORT, _encode(report)) for report in reports)


def run_resident(header: bytes, _incoming: Iterable[Any]) -> Iterator[Item]:
    """Run small batches for a while; their reports go to the driver by wire."""
    try:
        job = decode_resident_header(header)
        reside(_assembly(job.app), job.terms)
    except Exception as error:
        yield FAILURE, _encode(Failure.of(error))


def results(items: Iterable[Item]) -> list[TaskReport]:
    """Return the reports of a job, or raise what a worker raised."""
    reports: list[TaskReport] = []
    for number, data in items:
        if number <= FAILURE:
            raise msgspec.msgpack.decode(data, type=Failure).raised()
        reports.append(msgspec.msgpack.decode(data, type=TaskReport))
    return reports


@functools.cache
def _ignore_interrupts() -> None:
    """Leave Ctrl-C to the driver, which drains; the terminal sends it to every process of the group."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _assembly(header: AppHeader) -> Assembly:
    """Return what runs the tasks of an app in this worker."""
    _ignore_interrupts()
    assembly = Assembly(
        header.tasks, Layout(_plan(header), header.partitions), _broker(header.broker, header.tasks.durable)
    )
    freeze_loaded_objects()
    return assembly


@functools.cache
def _broker(url: str, durable: bool) -> Broker:
    return open_broker(url, Path(), durability="sync" if durable else "os")


def _plan(header: AppHeader) -> Plan:
    known = hashlib.sha256(_encode((header.fingerprint, header.reference, header.pickled))).digest()
    if known not in _plans:
        reference = header.reference
        plan: Plan = import_app(reference).plan if reference is not None else cloudpickle.loads(header.pickled)
        # what was pickled is the plan itself, but for the names of classes that were made inside of functions
        if reference is not None and fingerprint(plan) != header.fingerprint:
            raise StateError(
                f"the topology of {header.tasks.app!r} is another one in a worker than it was at the start",
                hint="its file was changed while it ran, or it depends on something outside of it; restart the app",
            )
        _plans[known] = plan
    return _plans[known]
