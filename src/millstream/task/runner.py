"""Run one task for one batch, exactly once.

State, outbox and version are committed in one transaction of the task's state; only then is the outbox published. A
``Committer`` decides when both happen. A task that runs again with the same batch finds its version and publishes the
stored outbox again, so user code need not be deterministic.
"""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any, Protocol, TypeAlias

import msgspec

from millstream.broker import Output
from millstream.foundation.transactions import Transaction
from millstream.state.checkpoint import commit_uploaded
from millstream.state.task import StateVersion, TaskState
from millstream.task.changelog import CatchUp
from millstream.task.environment import TaskEnvironment
from millstream.task.garbage import infrequent_collection
from millstream.task.outbox import Outbox, OutboxBlock, topic_outputs
from millstream.task.policy import FailedRecordError
from millstream.task.report import TaskReport
from millstream.task.run import TaskRun
from millstream.task.task_changelog import commit_once
from millstream.task.task_input import TaskInput

_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder(tuple[TaskReport, list[OutboxBlock]]).decode

Applied: TypeAlias = tuple[TaskReport, list[OutboxBlock]]
"""The report of a task, and all blocks of its outbox."""

Apply: TypeAlias = Callable[[Any], Applied]
"""Process a batch inside a write transaction of the task's state."""


class Committer(Protocol):
    """Decides when the changes of a task are committed and when its output is published."""

    def commit(self, env: TaskEnvironment, task_input: TaskInput, state: TaskState, apply: Apply) -> Applied:
        """Call ``apply`` with a transaction of ``state`` and return its result."""

    def publish(self, env: TaskEnvironment, task_input: TaskInput, report: TaskReport, outputs: list[Output]) -> None:
        """Append the output of a task to its topics, unless ``commit`` did that."""

    def stored_blocks(self, env: TaskEnvironment, blocks: list[OutboxBlock]) -> list[OutboxBlock]:
        """Return the blocks that are stored with the state, for a batch that is run again after its commit."""


class TaskCommitter:
    """Commit each task by itself, then publish its output; with a changelog, both are one transaction of the broker."""

    def commit(self, env: TaskEnvironment, task_input: TaskInput, state: TaskState, apply: Apply) -> Applied:
        """Commit one transaction; with a checkpoint, restore missing state before, and upload the changes first."""
        stage, partition = env.stage(task_input.task)
        if env.changelogs is not None:
            changelog = env.changelogs.of_task(stage.name, partition)
            return commit_once(changelog, state, task_input.expected, task_input.batch, apply)
        if env.checkpoint is None:
            return state.update(apply)
        name, expected = f"{stage.name}/{partition}", task_input.expected

        def on_restore(rows: int, size: int, part: float) -> None:
            env.on_restore(name, CatchUp.of_part(rows, size, part))

        (report, blocks), seconds = commit_uploaded(
            env.checkpoint, name, state, expected, task_input.batch, apply, on_restore
        )
        report.restore_seconds = seconds
        return report, blocks

    def publish(self, env: TaskEnvironment, task_input: TaskInput, report: TaskReport, outputs: list[Output]) -> None:
        if env.changelogs is None or report.replayed:  # replayed: committed when the app had no changelogs
            env.broker.append_once(env.producer(task_input.task), task_input.batch, outputs)

    def stored_blocks(self, env: TaskEnvironment, blocks: list[OutboxBlock]) -> list[OutboxBlock]:
        return blocks if env.changelogs is None else [block for block in blocks if block.edge]


TASK_COMMITTER = TaskCommitter()


def run_task(env: TaskEnvironment, task_input: TaskInput, committer: Committer = TASK_COMMITTER) -> Applied:
    """Run a task and publish its output to topics; return its report and the blocks for other stages."""
    if task_input.is_empty:
        return _idle_report(task_input), []
    state = env.state(task_input.task)
    with _dead_letter_on_failure(env, task_input):
        report, blocks = committer.commit(
            env, task_input, state, lambda txn: _apply(env, task_input, state, txn, committer)
        )
    outputs = topic_outputs(blocks)
    if outputs:
        began = time.perf_counter()
        committer.publish(env, task_input, report, outputs)
        report.publish_seconds += time.perf_counter() - began
    return report, [block for block in blocks if block.edge]


def _idle_report(task_input: TaskInput) -> TaskReport:
    """Return the report of a task that has nothing to do: it keeps its version."""
    expected = task_input.expected
    return TaskReport(task=task_input.task, version=expected.batch, commit=expected.commit)


@contextlib.contextmanager
def _dead_letter_on_failure(env: TaskEnvironment, task_input: TaskInput) -> Iterator[None]:
    """Publish the dead letter of a record that makes the task fail, and raise the record's error."""
    try:
        yield
    except FailedRecordError as failed:
        _publish_dead_letter(env, task_input, failed)
        raise failed.error from failed.error.__cause__


def _publish_dead_letter(env: TaskEnvironment, task_input: TaskInput, failed: FailedRecordError) -> None:
    """Publish the dead letter of a record that makes the task fail, outside the batch, which is not applied.

    The batch fails at the same record every time until the cause is fixed. The producer name contains the position of
    the record, so each record gets one dead letter, however often it fails.
    """
    position = ".".join(str(failed.error.facts.get(name)) for name in ("topic", "partition", "offset", "node"))
    outbox = Outbox()
    outbox.topics[failed.topic] = failed.dead_letter
    blocks = outbox.blocks(env.topic_partitions, env.edge_partitions, task_input.task)
    producer = f"{env.producer(task_input.task)}.failed.{position}"
    env.broker.append_once(producer, task_input.batch, topic_outputs(blocks))


def _apply(
    env: TaskEnvironment, task_input: TaskInput, state: TaskState, txn: Transaction, committer: Committer
) -> Applied:
    """Process a batch and save its results in ``txn``; if it was applied before, return the stored results."""
    stored = state.version(txn)
    stage, partition = env.stage(task_input.task)
    if state.has_applied(stored, task_input.batch, stage.round, task_input.expected):
        report, blocks = _unpack(state.outbox(txn, stage.round))
        report.replayed = True
        return report, blocks
    began = time.perf_counter()
    run = TaskRun(env, task_input, state, txn, stored.stream_time)
    with infrequent_collection(), contextlib.closing(run):
        run.process()
    blocks = run.outbox.blocks(env.topic_partitions, env.edge_partitions, task_input.task + task_input.batch)
    seconds = time.perf_counter() - began
    if run.probe is not None:
        env.sampling.note(task_input.task, seconds)
    base = stored.base if stored.batch == task_input.batch else stored.commit
    version = StateVersion(task_input.batch, uuid.uuid4().hex, run.context.stream_time, base=base, round=stage.round)
    report = TaskReport(
        task=task_input.task,
        stage=stage.name,
        partition=partition,
        version=version.batch,
        round=version.round,
        commit=version.commit,
        ranges=len(task_input.ranges),
        records_in=run.records_in,
        records_out=run.outbox.records,
        dropped=dict(run.drops),
        dead_letters=run.dead_letters,
        oldest=run.oldest,
        value_errors=dict(run.context.errors.counts),
        error_samples=run.context.errors.samples,
        stream_time=version.stream_time,
        rows={name: len(store) for name, store in run.stores.items()},
        bytes={name: state.bytes_of(txn, name) for name in run.stores},
        timers=run.timers.next_wall_times(),
        seconds=seconds,
        measured=None if run.probe is None else run.probe.result(run.records_in),
    )
    state.save(txn, version, _pack((report, committer.stored_blocks(env, blocks))), run.timers.changes())
    state.save_latest_times(txn, run.latest_times)
    return report, blocks
