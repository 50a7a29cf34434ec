"""The changelogs of tasks: what a task publishes, changes and sends is one transaction, from which it is restored."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from millstream.broker import Broker, FencedWriter, Output, SupportsChangelogs, WriterLostError
from millstream.errors import BrokerUnavailableError, FencedError, StateError
from millstream.foundation.names import producer_prefix
from millstream.state.changelog_rows import POSITIONS, changelog_block
from millstream.state.checkpoint import Checkpoint
from millstream.state.task import CLAIM_ROW, StateVersion, TaskState
from millstream.task.changelog import (
    CatchUp,
    ChangelogPartition,
    ChangelogTopic,
    OnCatchUp,
    OnTaskRestore,
    ignore_restore,
)
from millstream.task.outbox import OutboxBlock, topic_outputs
from millstream.task.report import TaskReport

_RETRY_SECONDS = 60.0
_MAX_THREADS = 16
Applied = tuple[TaskReport, list[OutboxBlock]]


class TaskChangelogs:
    """The changelogs of an app, as one process uses them."""

    def __init__(
        self,
        broker: Broker,
        app: str,
        topics: Mapping[str, ChangelogTopic],
        generation: int = 0,
        snapshots: Checkpoint | None = None,
        on_restore: OnTaskRestore = ignore_restore,
    ) -> None:
        """Use changelogs; a task that a later ``generation`` has claimed is not run.

        With ``snapshots``, states are copied there from time to time, so that a restore reads less of a changelog.
        ``on_restore`` is called while a task restores its state before it runs.
        """
        if not isinstance(broker, SupportsChangelogs):
            raise StateError(f"{broker.url!r} cannot hold changelogs", hint="set changelogs=False")
        self._broker = broker
        self._changelogs = broker
        self._app = app
        self._topics = topics
        self.generation = generation
        self._snapshots = snapshots
        self._on_restore = on_restore
        self._tasks: dict[tuple[str, int], TaskChangelog] = {}

    def of_task(self, stage: str, partition: int) -> TaskChangelog:
        """Return the changelog of a task; its writer stays open for the next batches."""
        task = self._tasks.get((stage, partition))
        if task is None:
            changelog = ChangelogPartition(self._broker, self._topics[stage], partition)
            writer = self._changelogs.fenced_writer(f"{producer_prefix(self._app, stage)}{partition}")
            task = self._tasks[stage, partition] = TaskChangelog(
                changelog, writer, self.generation, f"{stage}/{partition}", self._snapshots, self._on_restore
            )
        return task

    def close(self) -> None:
        """Close all writers."""
        for task in self._tasks.values():
            task.writer.close()


class TaskChangelog:
    """The changelog of one task and its writer."""

    def __init__(
        self,
        partition: ChangelogPartition,
        writer: FencedWriter,
        generation: int,
        name: str,
        snapshots: Checkpoint | None,
        on_restore: OnTaskRestore,
    ) -> None:
        self._name = name
        self._on_restore = partial(on_restore, name)
        self._snapshots = snapshots
        self.partition = partition
        self.writer = writer
        self._generation = generation

    def bring_up_to_date(self, state: TaskState, expected: StateVersion, batch: int) -> float:
        """Fence other attempts and restore what the state lacks; return the seconds that this took.

        As long as the writer stays open no other process has committed, so the expected commit is the last one.
        """
        state.environment.open_databases((POSITIONS,))
        if self.writer.is_open:
            stored = state.read_version()
            if stored.commit == expected.commit or (stored.batch == batch and stored.base == expected.commit):
                return 0.0
        began = time.perf_counter()
        if not self.writer.is_open:
            self.writer.open()
        try:
            self.restore(state, self._on_restore)
            self._check_claim(state)
        except BaseException:
            self.writer.close()
            raise
        return time.perf_counter() - began

    def _check_claim(self, state: TaskState) -> None:
        claim = state.read_claim()
        if claim > self._generation:
            raise FencedError(
                f"partition {self.partition.number} of {self.partition.topic.name!r} was taken over by a later run",
                hint="this attempt stops, and nothing that it did takes effect",
            )

    def claim(self) -> None:
        """Make sure that no attempt of an earlier generation can commit.

        An open transaction is decided, and an attempt that opens the writer again finds the claim in the changelog.
        """
        database, key = CLAIM_ROW
        block = changelog_block({(database, key): b"%d" % self._generation})
        deadline = time.monotonic() + _RETRY_SECONDS
        while True:
            self.writer.open()
            try:
                self.writer.commit([Output(self.partition.topic.name, self.partition.number, block)])
            except WriterLostError as error:
                if time.monotonic() > deadline:
                    raise _cannot_commit(error) from error
                continue
            self.writer.close()
            return

    def restore(self, state: TaskState, on_progress: OnCatchUp = lambda _: None) -> CatchUp:
        """Bring a state to the end of the changelog; without an open writer, others may write meanwhile."""
        if self._snapshots is not None and not self.partition.is_usable(state.environment):
            self._snapshots.of_task(self._name).load_snapshot(state)
        if not self.partition.is_usable(state.environment):
            self.partition.restart_copy(state.environment)
        return self.partition.catch_up(state.environment, on_progress)

    def _commit_outputs(self, outputs: list[Output], before: int) -> None:
        """Commit a transaction; if the writer was lost and nothing was committed since ``before``, try once more.

        This is common: Spark gives the task to another worker of the host, and later to this one again. Its work need
        not be repeated, since once the writer is open again, the changelog shows that the state is still the last one.
        """
        try:
            self.writer.commit(outputs)
        except WriterLostError:
            self.writer.open()
            if self.partition.has_records_from(before):
                self.writer.close()
                raise
            self.writer.commit(outputs)

    def snapshot_if_due(self, state: TaskState) -> None:
        """Upload a snapshot if the last one of this host is old enough."""
        if self._snapshots is None:
            return
        batch, before = state.read_version().batch, self.partition.snapshot_batch(state.environment)
        if batch - before >= self._snapshots.snapshot_every:
            self._snapshots.of_task(self._name).upload_snapshot(state)
            self.partition.store_snapshot_batch(state.environment, batch)

    def commit(self, state: TaskState, apply: Callable[[Any], Applied]) -> Applied:
        """Apply a batch: its changes and its output are committed to the broker first, then to the state."""
        is_committed = False

        def change(txn: Any) -> Applied:
            nonlocal is_committed
            if is_committed:  # the local commit failed, since the map was full
                raise WriterLostError("the state lacks a commit")
            recorded = state.recorded(txn)
            report, blocks = apply(recorded)
            if recorded.changes:
                before = self.partition.offset_in(state.environment, txn)
                staged = self.partition.stage(state.environment, txn, recorded.changes)
                began = time.perf_counter()
                self._commit_outputs([*topic_outputs(blocks), *([] if staged is None else [staged])], before)
                report.publish_seconds = time.perf_counter() - began
                is_committed = True
            return report, blocks

        try:
            return state.update(change)
        except BaseException:
            if is_committed:
                self.writer.close()  # so that the next attempt reads the commit from the changelog
            raise


def commit_once(
    changelog: TaskChangelog, state: TaskState, expected: StateVersion, batch: int, apply: Callable[[Any], Applied]
) -> Applied:
    """Run a task until one attempt has committed; an attempt that was fenced finds what another has committed."""
    deadline = time.monotonic() + _RETRY_SECONDS
    while True:
        seconds = changelog.bring_up_to_date(state, expected, batch)
        try:
            report, blocks = changelog.commit(state, apply)
        except WriterLostError as error:
            if time.monotonic() > deadline:
                raise _cannot_commit(error) from error
            continue
        report.restore_seconds = seconds
        changelog.snapshot_if_due(state)
        return report, blocks


def _cannot_commit(error: WriterLostError) -> BrokerUnavailableError:
    return BrokerUnavailableError(
        f"a task could not commit to its changelog for {_RETRY_SECONDS:.0f} s: {error}",
        hint="check that Kafka is running and that the app runs only once; the batch is run again",
    )


def claim_tasks(changelogs: TaskChangelogs, tasks: list[tuple[str, int]]) -> None:
    """Claim tasks, several at the same time: most of it is waiting for the cluster."""
    if tasks:
        with ThreadPoolExecutor(min(len(tasks), _MAX_THREADS)) as pool:
            list(pool.map(lambda task: changelogs.of_task(*task).claim(), tasks))
