"""The functions that run inside Spark's Python workers: they hand slots, batches and resident tasks to ``batch/``.

A worker keeps plans and brokers between jobs. It creates them when it first needs them, so that nothing crosses a
fork. The functions yield pairs of a number and bytes: shuffle data for a task (the number), a report, or a failure.
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
from millstream.batch.resident import run_resident_task
from millstream.broker import Broker
from millstream.broker_urls import open_broker
from millstream.errors import StateError
from millstream.foundation.loading import import_app
from millstream.plan.describe import fingerprint
from millstream.plan.layout import Layout
from millstream.plan.topology import Plan
from millstream.spark.failures import Failure
from millstream.spark.header import AppHeader, JobHeader, decode_header, decode_resident_header
from millstream.spark.shuffle_files import AbandonedError, NotStartedError, ShuffleFiles
from millstream.task.garbage import freeze_loaded_objects
from millstream.task.report import TaskReport
from millstream.task.task_input import ShuffleInput

REPORT = -1
NOT_STARTED = -(2**31)
"""Another task of the job has not started, so the job cannot use files."""
FAILURE = -2
"""A failure has the number FAILURE - p for Spark partition p, so that it reaches every partition of the next level."""

Item = tuple[int, bytes]
_encode = msgspec.msgpack.Encoder().encode
_decode_input = msgspec.msgpack.Decoder(ShuffleInput).decode
_plans: dict[bytes, Plan] = {}


def partition_of_item(number: int) -> int:
    """Return the Spark partition of an item; Spark takes it modulo the width of the level."""
    if number >= 0:
        return number
    return 0 if number == REPORT else FAILURE - number


def run_level(header: bytes, level: int, index: int, incoming: Iterator[Item]) -> Iterator[Item]:
    """Run the tasks of one level that belong to one Spark task."""
    job = decode_header(header)
    inputs: ShuffleInputs = defaultdict(list)
    failures: list[bytes] = []
    for number, data in incoming:
        if number >= 0:
            inputs[number].append(_decode_input(data))
        elif number == REPORT:
            yield REPORT, data
        else:
            failures.append(data)
    try:
        if not failures:
            yield from _run_slot(job, level, index, inputs)
            for receiver, later in inputs.items():  # the rest is for tasks of a later level
                yield from ((receiver, _encode(shuffle_input)) for shuffle_input in later)
    except Exception as error:
        failures.append(_encode(Failure.of(error)))
    next_width = job.app.widths[level + 1] if level + 1 < len(job.app.widths) else 1
    for data in failures:
        yield from ((FAILURE - partition, data) for partition in range(next_width))


def _run_slot(job: JobHeader, level: int, index: int, inputs: ShuffleInputs) -> Iterator[Item]:
    slot = Slot(level, index, job.app.widths[level])
    for report, sent in run_slot(_assembly(job.app).environment(), job.batch, job.versions, slot, inputs):
        yield REPORT, _encode(report)
        for receiver, data in sent:
            yield receiver, _encode(data)


def run_all_levels(
    header: bytes, directory: str, patience: float, index: int, _numbers: Iterable[Any]
) -> Iterator[Item]:
    """Run the tasks of all levels that belong to one Spark task; shuffle data goes through files in ``directory``."""
    job = decode_header(header)
    files = ShuffleFiles(Path(directory), max(job.app.widths), patience)
    try:
        files.mark_started(index)
        yield from _run_with_files(job, files, index)
    except AbandonedError:
        return  # the task that failed yields the reason
    except Exception as error:
        with contextlib.suppress(AbandonedError):
            files.mark_failed()
        yield (NOT_STARTED, b"") if isinstance(error, NotStartedError) else (FAILURE, _encode(Failure.of(error)))


def _run_with_files(job: JobHeader, files: ShuffleFiles, index: int) -> Iterator[Item]:
    widths = job.app.widths
    layout = Layout(_plan(job.app), job.app.partitions)
    slot_of = {task: task % width for level, width in enumerate(widths) for task in layout.tasks_on(level)}
    inputs: ShuffleInputs = defaultdict(list)
    for level, width in enumerate(widths):
        slices: dict[int, list[Item]] = defaultdict(list)
        for number, data in _run_slot(job, level, index, inputs) if index < width else ():
            if number == REPORT:
                yield number, data
            else:
                slices[slot_of[number]].append((number, data))
        if level + 1 < len(widths):
            if index < width:
                files.write(level, index, slices, max(widths))
            for number, data in files.read(level, width, index):
                inputs[number].append(_decode_input(data))


def run_single(header: bytes, _incoming: Iterable[Any]) -> Iterator[Item]:
    """Run a whole batch in one Spark task."""
    try:
        job = decode_header(header)
        reports = run_batch(_assembly(job.app).environment(), job.batch, job.versions)
    except Exception as error:
        yield FAILURE, _encode(Failure.of(error))
    else:
        yield from ((REPORT, _encode(report)) for report in reports)


def run_resident(header: bytes, _incoming: Iterable[Any]) -> Iterator[Item]:
    """Run a resident task; its reports go to the driver over the control socket."""
    try:
        job = decode_resident_header(header)
        run_resident_task(_assembly(job.app), job.settings)
    except Exception as error:
        yield FAILURE, _encode(Failure.of(error))


def results(items: Iterable[Item]) -> list[TaskReport]:
    """Return the reports of a job, or raise the error of a worker."""
    reports: list[TaskReport] = []
    for number, data in items:
        if number <= FAILURE:
            raise msgspec.msgpack.decode(data, type=Failure).error()
        reports.append(msgspec.msgpack.decode(data, type=TaskReport))
    return reports


@functools.cache
def _ignore_interrupts() -> None:
    """Leave Ctrl-C to the driver, which drains; the terminal sends it to every process of the group."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _assembly(header: AppHeader) -> Assembly:
    """Assemble an app in this worker."""
    _ignore_interrupts()
    layout = Layout(_plan(header), header.partitions)
    assembly = Assembly(header.tasks, layout, _broker(header.broker, header.tasks.durable))
    freeze_loaded_objects()
    return assembly


@functools.cache
def _broker(url: str, durable: bool) -> Broker:
    return open_broker(url, Path(), durability="sync" if durable else "os")


def _plan(header: AppHeader) -> Plan:
    key = hashlib.sha256(_encode((header.fingerprint, header.reference, header.pickled))).digest()
    if key not in _plans:
        reference = header.reference
        plan: Plan = import_app(reference).plan if reference is not None else cloudpickle.loads(header.pickled)
        # a pickled plan may have another fingerprint: classes that were made inside functions get other names
        if reference is not None and fingerprint(plan) != header.fingerprint:
            raise StateError(
                f"the topology of {header.tasks.app!r} is different in a worker than it was at the start",
                hint="its file was changed while it ran, or it depends on something outside it; restart the app",
            )
        _plans[key] = plan
    return _plans[key]
