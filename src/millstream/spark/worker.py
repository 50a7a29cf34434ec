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
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from millstream.batch.assembly import Assembly
from millstream.batch.execute import ShuffleInputs, restore_tasks, run_batch, run_tasks
from millstream.batch.resident import run_resident_task
from millstream.broker import Broker
from millstream.broker_urls import open_broker
from millstream.errors import StateError
from millstream.foundation.loading import AppReference, extend_path, import_app
from millstream.foundation.object_codec import use_classes
from millstream.foundation.typed_decoding import decode_msgpack
from millstream.plan.describe import fingerprint
from millstream.plan.layout import Layout
from millstream.plan.topology import Plan
from millstream.spark.by_value import loads
from millstream.spark.failures import RemoteFailure
from millstream.spark.header import AppHeader, JobHeader, decode_header, decode_resident_header
from millstream.spark.hosts import host_name, host_state_dir
from millstream.spark.restore_progress import sender_to
from millstream.spark.shuffle_files import AbandonedError, NotStartedError, ShuffleFiles
from millstream.task.environment import TaskEnvironment
from millstream.task.garbage import freeze_loaded_objects
from millstream.task.report import TaskReport
from millstream.task.task_input import ShuffleInput

REPORT = -1
FAILURE = -2
NOT_STARTED = -3
"""Another task of the job has not started, so the job cannot use files."""

Item = tuple[int, bytes]
_PAYLOAD_BYTES = 4 << 20
_encode = msgspec.msgpack.Encoder().encode
decode_input = msgspec.msgpack.Decoder(ShuffleInput).decode
_decode_items = msgspec.msgpack.Decoder(list[Item]).decode
SentPlan = tuple[Plan, dict[str, type]]
"""A plan, and the classes that were sent with it by ``module:qualname``."""
_plans: dict[bytes, SentPlan] = {}
_last_slot: dict[str, int] = {}
"""By app, the slot that this worker ran last and may still have open writers for: opening them takes longer than all
other waits of a batch, and Spark does not give a worker the same index again."""


def send_level(header: bytes, level: int, slot: int, payloads: Iterable[bytes]) -> Iterator[bytes]:
    """Run a slot of a level; yield what it sends to each slot of the next level, as Spark's shuffle expects it.

    Spark reads the bytes in pairs: the number of the receiving slot as a big-endian long, then a payload.
    """
    job = decode_header(header)
    next_slots = job.app.slots[level + 1]
    slot_of = {task: number for number, receiver in enumerate(next_slots) for task in receiver.tasks}
    payload_of: dict[int, list[Item]] = defaultdict(list)
    sizes: dict[int, int] = defaultdict(int)
    for item in _run_level(job, level, slot, payloads):
        number, data = item
        for receiver in _receivers(number, slot_of, len(next_slots)):
            payload_of[receiver].append(item)
            sizes[receiver] += len(data)
            if sizes[receiver] > _PAYLOAD_BYTES:
                yield receiver.to_bytes(8)
                yield _encode(payload_of.pop(receiver))
                del sizes[receiver]
    for receiver, items in payload_of.items():
        yield receiver.to_bytes(8)
        yield _encode(items)


def _receivers(number: int, slot_of: Mapping[int, int], width: int) -> Iterable[int]:
    """Return the slots of the next level that an item goes to."""
    if number == FAILURE:
        return range(width)
    return (slot_of.get(number, max(number, 0) % width),)  # any slot passes on what is for a later level


def finish_level(header: bytes, level: int, slot: int, payloads: Iterable[bytes]) -> Iterator[Item]:
    """Run a slot of the last level; yield the reports and failures of the job."""
    yield from _run_level(decode_header(header), level, slot, payloads)


def _run_level(job: JobHeader, level: int, slot: int, payloads: Iterable[bytes]) -> Iterator[Item]:
    inputs: ShuffleInputs = defaultdict(list)
    failures: list[bytes] = []
    for payload in payloads:
        for number, data in _decode_items(payload) if payload else ():
            if number >= 0:
                inputs[number].append(decode_input(data))
            elif number == REPORT:
                yield REPORT, data
            else:
                failures.append(data)
    try:
        if not failures:
            env = assembly_of(job.app).environment(sender_to(job.app.progress))
            yield from run_slot(env, job, level, slot, inputs)
            for receiver, later in inputs.items():
                yield from ((receiver, _encode(shuffle_input)) for shuffle_input in later)
    except Exception as error:
        failures.append(_encode(RemoteFailure.of(error)))
    yield from ((FAILURE, data) for data in failures)


def run_slot(env: TaskEnvironment, job: JobHeader, level: int, slot: int, inputs: ShuffleInputs) -> Iterator[Item]:
    """Run the tasks of a slot; yield their reports, and what they send to tasks of later levels."""
    tasks, is_first = job.app.slots[level][slot].tasks, (level, slot) == (0, 0)
    for report, sent in run_tasks(env, job.batch, job.versions, tasks, inputs, is_first=is_first):
        report.host = host_name()
        yield REPORT, _encode(report)
        for receiver, data in sent:
            yield receiver, _encode(data)


def restore_slots(header: bytes, slot: int, payloads: Iterable[bytes]) -> Iterator[int]:
    """Restore the states of a slot's tasks on this host to the versions of a batch."""
    for _ in payloads:
        job = decode_header(header)
        env = assembly_of(job.app).environment()
        yield restore_tasks(env, job.batch, job.versions, job.app.slots[0][slot].tasks)


def run_all_levels(
    header: bytes, directory: str, patience: float, index: int, _numbers: Iterable[Any]
) -> Iterator[Item]:
    """Run the tasks of all levels that belong to one Spark task; shuffle data goes through files in ``directory``."""
    job = decode_header(header)
    files = ShuffleFiles(Path(directory), job.app.width, patience)
    app = job.app.tasks.app
    try:
        slot = _last_slot[app] = files.take_slot(index, _last_slot.get(app))
        yield from _run_with_files(job, files, slot)
    except AbandonedError:
        return  # the task that failed yields the reason
    except Exception as error:
        with contextlib.suppress(AbandonedError):
            files.mark_failed()
        yield (NOT_STARTED, b"") if isinstance(error, NotStartedError) else (FAILURE, _encode(RemoteFailure.of(error)))


def _run_with_files(job: JobHeader, files: ShuffleFiles, own_slot: int) -> Iterator[Item]:
    slots, env = job.app.slots, assembly_of(job.app).environment()
    slot_of = {task: number for level in slots for number, slot in enumerate(level) for task in slot.tasks}
    inputs: ShuffleInputs = defaultdict(list)
    for level, width in enumerate(map(len, slots)):
        slices: dict[int, list[Item]] = defaultdict(list)
        for number, data in run_slot(env, job, level, own_slot, inputs) if own_slot < width else ():
            if number == REPORT:
                yield number, data
            else:
                slices[slot_of[number]].append((number, data))
        if level + 1 < len(slots):
            if own_slot < width:
                files.write(level, own_slot, slices, job.app.width)
            for number, data in files.read(level, width, own_slot):
                inputs[number].append(decode_input(data))


def run_single(header: bytes, _incoming: Iterable[Any]) -> Iterator[Item]:
    """Run a whole batch in one Spark task."""
    try:
        job = decode_header(header)
        reports = run_batch(assembly_of(job.app).environment(), job.batch, job.versions)
    except Exception as error:
        yield FAILURE, _encode(RemoteFailure.of(error))
    else:
        yield from ((REPORT, _encode(report)) for report in reports)


def run_resident(header: bytes, _incoming: Iterable[Any]) -> Iterator[Item]:
    """Run a resident task; its reports go to the driver over the control socket."""
    try:
        job = decode_resident_header(header)
        run_resident_task(assembly_of(job.app), job.settings)
    except Exception as error:
        yield FAILURE, _encode(RemoteFailure.of(error))


def results(items: Iterable[Item]) -> list[TaskReport]:
    """Return the reports of a job, or raise the error of a worker."""
    reports: list[TaskReport] = []
    for number, data in items:
        if number <= FAILURE:
            raise decode_msgpack(data, RemoteFailure).error()
        reports.append(decode_msgpack(data, TaskReport))
    return reports


@functools.cache
def _ignore_interrupts() -> None:
    """Leave Ctrl-C to the driver, which drains; the terminal sends it to every process of the group."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def assembly_of(header: AppHeader) -> Assembly:
    """Assemble an app in this worker."""
    _ignore_interrupts()
    layout = Layout(_plan(header), header.partitions)
    # on a cluster the path is relative to a directory of the host, elsewhere it is absolute
    settings = msgspec.structs.replace(header.tasks, state_dir=str(host_state_dir() / header.tasks.state_dir))
    assembly = Assembly(settings, layout, _broker(header.broker, header.tasks.durable))
    freeze_loaded_objects()
    return assembly


@functools.cache
def _broker(url: str, durable: bool) -> Broker:
    return open_broker(url, Path(), durability="sync" if durable else "os")


def _plan(header: AppHeader) -> Plan:
    """Return the plan of an app; this worker decodes objects of the classes that belong to it."""
    key = hashlib.sha256(_encode((header.fingerprint, header.reference, header.part, header.pickled))).digest()
    if key not in _plans:
        _plans[key] = _imported_plan(header, header.reference) if header.reference is not None else _sent_plan(header)
    plan, classes = _plans[key]
    use_classes(classes)
    return plan


def _imported_plan(header: AppHeader, reference: AppReference) -> SentPlan:
    plan: Plan = header.part.of(import_app(reference).plan)
    if fingerprint(plan) != header.fingerprint:
        raise StateError(
            f"the topology of {header.tasks.app!r} is different in a worker than it was at the start",
            hint="its file was changed while it ran, or it depends on something outside it; restart the app",
        )
    return plan, {}


def _sent_plan(header: AppHeader) -> SentPlan:
    """Return a plan that was sent by value.

    It may have another fingerprint: classes that were made inside functions get other names.
    """
    extend_path(header.paths)
    return loads(header.pickled)
