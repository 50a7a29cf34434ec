"""Run one task for one batch, exactly once.

Everything happens in one transaction of the task's environment: state, outbox and version are committed together, and
only then is the outbox published. A task that is run again with the same batch finds its version and serves its
outbox again, so user code need not be deterministic.
"""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Iterator
from typing import Any

import msgspec

from millstream.state.recording import Changes
from millstream.state.task import StateVersion, TaskState
from millstream.task.environment import TaskEnvironment
from millstream.task.garbage import seldom_collected
from millstream.task.outbox import Outbox, OutboxBlock, outputs
from millstream.task.policy import FailedRecordError
from millstream.task.report import TaskReport
from millstream.task.run import TaskRun
from millstream.task.work import Work

_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder(tuple[TaskReport, list[OutboxBlock]]).decode


def run_task(site: TaskEnvironment, work: Work) -> tuple[TaskReport, list[OutboxBlock]]:
    """Run a task and publish what it has for topics; return its report and the letters for other stages."""
    if work.is_empty:
        return idle_report(work), []
    state = site.state(work.task)
    with _letter_on_failure(site, work):
        report, letters = _committed(site, work, state)
    records = outputs(letters)
    if records:
        began = time.perf_counter()
        site.broker.append_once(site.producer(work.task), work.batch, records)
        report.publish_seconds = time.perf_counter() - began
    return report, [letter for letter in letters if letter.edge]


def run_within(site: TaskEnvironment, work: Work, txn: Any) -> tuple[TaskReport, list[OutboxBlock]]:
    """Run a task inside a transaction of its state, which somebody else commits; return all that it has to say."""
    with _letter_on_failure(site, work):
        return _apply(site, work, site.state(work.task), txn)


def idle_report(work: Work) -> TaskReport:
    """Return the report of a task that has nothing to do: it keeps its version."""
    return TaskReport(task=work.task, version=work.expected.batch, commit=work.expected.commit)


@contextlib.contextmanager
def _letter_on_failure(site: TaskEnvironment, work: Work) -> Iterator[None]:
    """Write the dead letter of a record that ends the run, and raise what it ended with."""
    try:
        yield
    except FailedRecordError as failed:
        _publish_letter(site, work, failed)
        raise failed.error from failed.error.__cause__


def _committed(site: TaskEnvironment, work: Work, state: TaskState) -> tuple[TaskReport, list[OutboxBlock]]:
    """Apply a batch in one transaction; where there is a checkpoint, fetch what is missing and ship what changes."""
    if site.checkpoint is None:
        return state.update(lambda txn: _apply(site, work, state, txn))
    stage, partition = site.stage(work.task)
    checkpoint = site.checkpoint.of_task(f"{stage.name}/{partition}")
    restored = checkpoint.ensure(state, work.expected, work.batch)
    before = state.read_version().commit

    def change(txn: Any) -> tuple[tuple[TaskReport, list[OutboxBlock]], Changes]:
        recorded = state.recorded(txn)
        return _apply(site, work, state, recorded), recorded.changes

    (report, letters), changes = state.update(change)
    checkpoint.ship(state, before, changes)
    checkpoint.snapshot_if_due(state)
    report.restore_seconds = restored
    return report, letters


def _publish_letter(site: TaskEnvironment, work: Work, failed: FailedRecordError) -> None:
    """Write the dead letter of a record that ends the run, outside of the batch that is not applied.

    The batch will fail at the same record again and again until somebody helps: the producer's name holds the record's
    place, so that each record has one letter, however often it fails.
    """
    place = ".".join(str(failed.error.facts.get(name)) for name in ("topic", "partition", "offset", "node"))
    outbox = Outbox()
    outbox.topics[failed.topic] = failed.letter
    letters = outbox.letters(site.topic_partitions, site.edge_partitions, work.task)
    site.broker.append_once(f"{site.producer(work.task)}.failed.{place}", work.batch, outputs(letters))


def _apply(site: TaskEnvironment, work: Work, state: TaskState, txn: Any) -> tuple[TaskReport, list[OutboxBlock]]:
    found = state.version(txn)
    turn = site.stage(work.task)[0].round
    if state.has_applied(found, work.batch, turn, work.expected):
        report, letters = _unpack(state.outbox(txn, turn))
        report.replayed = True
        return report, letters
    began = time.perf_counter()
    run = TaskRun(site, work, state, txn, found.stream_time)
    with seldom_collected(), contextlib.closing(run):
        run.process()
    letters = run.outbox.letters(site.topic_partitions, site.edge_partitions, work.task + work.batch)
    seconds = time.perf_counter() - began
    if run.probe is not None:
        site.sampling.note(work.task, seconds)
    stage, partition = site.stage(work.task)
    base = found.after if found.batch == work.batch else found.commit
    version = StateVersion(work.batch, uuid.uuid4().hex, run.context.stream_time, after=base, round=turn)
    report = TaskReport(
        task=work.task,
        stage=stage.name,
        partition=partition,
        version=version.batch,
        round=turn,
        commit=version.commit,
        records_in=run.records_in,
        records_out=run.outbox.records,
        dropped=dict(run.drops),
        dead_letters=run.dead_letters,
        stream_time=version.stream_time,
        rows={name: len(store) for name, store in run.stores.items()},
        bytes={name: state.bytes_of(txn, name) for name in run.stores},
        timers=run.timers.next_wall_times(),
        seconds=seconds,
        measured=None if run.probe is None else run.probe.result(run.records_in),
    )
    state.save(txn, version, _pack((report, letters)), run.timers.changes())
    state.save_latest_times(txn, run.latest_times)
    return report, letters
