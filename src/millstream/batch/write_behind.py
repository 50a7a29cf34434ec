"""Write the state of a resident task behind its journal: one commit per batch, the task states are committed later.

In the other execution modes a batch waits for the disk once for its plan, once for each task and once for each task
that publishes. Here the tasks of a batch run in transactions that stay open. Their changes are written to the journal,
in the commit that also stores the batch and marks the batch before as done; then all output is published in one pass.
The transactions commit later, for many batches together. If the process dies before that, the journal contains
everything: ``Journal.replay_commits`` brings the state of each task up to date, outboxes included, and any execution
mode can continue from there.

With changelogs, a batch is one transaction of the broker instead: the output and the changes of all tasks, and the
entry of the journal that marks the batch as done. All of it takes effect or nothing does. If the app asks for
at least once, the output of a batch is published at once and by itself, and that transaction, which then has only
changes and progress, is committed with the states, for many batches together: a crash repeats output and nothing else.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from millstream.batch.batch import Batch, Progress, check_ran, progress_after
from millstream.batch.batch_lock import BatchLock
from millstream.batch.execute import run_batch, task_names
from millstream.batch.journal import Journal
from millstream.batch.journal_changelog import JournalChangelog
from millstream.batch.report import BatchReport
from millstream.batch.shared_journal import SharedJournal
from millstream.broker import Output, append_together
from millstream.errors import EngineError, MillstreamError
from millstream.foundation.storage import MapFullError, translate_storage_errors
from millstream.foundation.transactions import Transaction
from millstream.state.changelog_rows import POSITIONS
from millstream.state.recording import Changes, rows_of
from millstream.state.redo import TaskCommit
from millstream.state.task import StateVersion, TaskState
from millstream.task.changelog import ChangelogPartition
from millstream.task.environment import TaskEnvironment
from millstream.task.outbox import OutboxBlock
from millstream.task.report import TaskReport
from millstream.task.runner import Applied, Apply
from millstream.task.task_changelog import TaskChangelogs, claim_tasks
from millstream.task.task_input import TaskInput

_COMMIT_SECONDS = 0.1
"""The longest time until readers of a table see the changes of a batch."""


def can_write_behind(env: TaskEnvironment) -> bool:
    """Whether batches change nothing but the states of tasks: no copies of global tables, no checkpoint."""
    return env.checkpoint is None and not env.layout.plan.global_tables


class DeferredJournal(Journal):
    """A journal that defers the writes of the loop until a batch is committed."""

    def __init__(self, path: Path, *, durable: bool = True, changelog: SharedJournal | None = None) -> None:
        super().__init__(path, durable=durable, changelog=changelog)
        self._deferred: tuple[Progress, Batch | None, BatchReport | None] | None = None
        self._progress = Progress()
        self._reports: list[BatchReport] = []
        """With a changelog: the reports that are not in the history yet."""
        self._committed_batch = 0

    def read(self) -> tuple[Progress, Batch | None]:
        """Return the content of the journal."""
        self._progress, planned = super().read()
        self._committed_batch = self._progress.done
        return self._progress, planned

    def write(self, progress: Progress, planned: Batch | None, report: BatchReport | None = None) -> None:
        """Defer a write; a report that is not stored yet is kept."""
        if self.changelog is not None and report is not None:
            self._reports.append(report)
        if report is None and self._deferred is not None:
            report = self._deferred[2]
        self._deferred = progress, planned, report
        self._progress = progress

    def commit_batch(self, batch: Batch, names: list[str], reports: list[TaskReport], outputs: list[Output]) -> None:
        """Commit a batch to the broker: its outputs, the changes of its tasks among them, and that it is done."""
        check_ran(batch, names, reports)
        self._commit_progress(progress_after(self._progress, batch, names, reports), outputs)

    def commit_deferred(self, outputs: list[Output]) -> None:
        """Commit the progress of all batches that were deferred, with the changes of their tasks, to the broker."""
        self._commit_progress(self._progress, outputs)

    def _commit_progress(self, progress: Progress, outputs: list[Output]) -> None:
        assert isinstance(self.changelog, JournalChangelog)
        changes = self.changes_of(progress, None)
        self.changelog.commit_batch(self._environment, changes, outputs, lambda: self.is_done(progress.done))
        self._deferred = progress, None, None
        self._committed_batch = progress.done

    def is_done(self, batch: int) -> bool:
        """Whether the stored journal, without deferred writes, has a batch as done."""
        return super().read()[0].done >= batch

    def forget_uncommitted(self) -> int:
        """Drop what was deferred for batches that were rolled back; return the last batch that was not."""
        committed = self._committed_batch
        if self._deferred is not None and self._deferred[0].done > committed:
            self._deferred = None
        self._reports = [report for report in self._reports if report.plan.number <= committed]
        return committed

    def write_batch(self, batch: Batch, commits: list[TaskCommit], committed: int) -> None:
        """Store the deferred write together with a batch and the commits of its tasks."""
        report = None if self._deferred is None else self._deferred[2]
        self.write_with_commits(self._progress, batch, report, commits, committed=committed)
        self._deferred = None

    def flush(self) -> None:
        """Store the deferred write by itself; with a changelog, the broker has it already, except the reports."""
        if self._deferred is not None and self.changelog is not None:
            self._environment.update(self._copy_deferred)
            self._reports.clear()
        elif self._deferred is not None:
            super().write(*self._deferred)
        self._deferred = None

    def _copy_deferred(self, txn: Transaction) -> None:
        assert self._deferred is not None
        assert isinstance(self.changelog, JournalChangelog)
        self._put(txn, self._deferred[0], None, None)
        for report in self._reports:
            self.history.add(txn, report)
        self.changelog.store_position(self._environment, txn)


class WriteBehind:
    """Runs batches in this process; their loop has to use ``journal``."""

    def __init__(
        self,
        env: TaskEnvironment,
        journal: DeferredJournal,
        on_batch: Callable[[BatchReport], None] = lambda _: None,
        *,
        fence: bool = True,
    ) -> None:
        """Prepare to run batches; ``fence`` if tasks of earlier batches may still run, here or on another host."""
        self.journal = journal
        self._env = env
        self._fence = fence
        self._names = task_names(env.layout)
        self._batch_lock = BatchLock(journal.path.parent)
        self._on_batch = on_batch
        self._deferred_reports: list[BatchReport] = []
        self._exit_stack = ExitStack()
        self._transactions: dict[Path, Any] = {}
        """The open transactions by state directory."""
        self._opened_at = 0.0
        self._applied = 0
        """The last batch in the journal."""
        self._committed = 0
        """The last batch in the states of the tasks."""
        self._commits: list[TaskCommit] = []
        self._outputs: dict[str, list[Output]] = {}
        self._staged: list[Output] = []
        """With changelogs: what the tasks of the batch have changed."""
        self._unstaged: dict[Path, tuple[TaskState, ChangelogPartition, Changes]] = {}
        """At least once: what tasks have changed since the last commit, by state directory."""
        self._uncommitted = 0
        """At least once: how many batches are published and not committed."""
        self._is_rolled_back = False
        self._is_up_to_date = False

    def __call__(self, batch: Batch, versions: Mapping[str, StateVersion]) -> list[TaskReport]:
        """Run a batch; its changes and its output are durable before any of the output is published."""
        reports = self._run_durably(batch, versions)
        if not self._uncommitted:
            self._send_reports()
        if self._outputs and self._env.changelogs is None:
            began = time.perf_counter()
            append_together(self._env.broker, batch.number, self._outputs)
            seconds = time.perf_counter() - began
            for report in reports:
                report.publish_seconds = seconds if report.records_out else 0.0
        if self._transactions and not self._uncommitted and self._is_commit_due:
            if self._env.changelogs is not None:
                self.journal.flush()  # so that journal and states on this host fit each other between two batches
            self._commit_states()
        return reports

    def defer_report(self, report: BatchReport) -> None:
        """Keep a report until its batch is marked as done."""
        self._deferred_reports.append(report)

    def flush(self) -> None:
        """Write everything that was deferred; a savepoint sees all of it or nothing."""
        with self._batch_lock.shared():
            if self._uncommitted:
                self._commit_published(self.journal.commit_deferred)
            self.journal.flush()
            self._commit_states()
        self._send_reports()

    def close(self) -> None:
        """Leave nothing that other execution modes do not expect; call it at the end, also after an error."""
        self.flush()
        self.journal.replay_commits(self._env.state_dir)

    def _run_durably(self, batch: Batch, versions: Mapping[str, StateVersion]) -> list[TaskReport]:
        while True:
            self._bring_up_to_date(batch, versions)
            self._commits, self._outputs, self._staged = [], {}, []
            try:
                reports = run_batch(self._env, batch, versions, committer=self)
                self._commit_batch(batch, reports)
            except _FullMapError as full:
                self._abort()
                full.state.grow()
            except BaseException:
                self._abort()
                raise
            else:
                self._applied = batch.number
                return reports

    @property
    def _is_commit_due(self) -> bool:
        return time.monotonic() - self._opened_at >= _COMMIT_SECONDS

    def _commit_batch(self, batch: Batch, reports: list[TaskReport]) -> None:
        if self._env.changelogs is None:
            self.journal.write_batch(batch, self._commits, self._committed)
            return
        began = time.perf_counter()
        outputs = [output for outputs in self._outputs.values() for output in outputs]
        if self._env.at_least_once:
            self._env.broker.append(outputs)
            self._uncommitted += 1
            if self._is_commit_due:
                commit = functools.partial(self.journal.commit_batch, batch, self._names, reports)
                self._commit_published(commit)
        else:
            self.journal.commit_batch(batch, self._names, reports, [*outputs, *self._staged])
        seconds = time.perf_counter() - began
        for report in reports:
            report.publish_seconds = seconds if report.commit else 0.0

    def _commit_published(self, commit: Callable[[list[Output]], None]) -> None:
        """Commit what was changed since the last commit, and the progress; the output is published already."""
        try:
            outputs = [
                changelog.stage(state.environment, self._transactions[path], changes)
                for path, (state, changelog, changes) in self._unstaged.items()
            ]
            commit([output for output in outputs if output is not None])
        except BaseException as error:
            self._abort()
            if isinstance(error, MillstreamError) and error.retryable:
                raise _rolled_back() from error
            raise
        self._unstaged.clear()
        self._uncommitted = 0

    def commit(self, env: TaskEnvironment, task_input: TaskInput, state: TaskState, apply: Apply) -> Applied:
        """Apply a task inside its open transaction, and keep its changes for the journal."""
        raw = self._transaction(state)
        txn = state.recorded(raw)
        before = state.version(txn).commit
        try:
            with translate_storage_errors(state.path):
                report, blocks = apply(txn)
        except MapFullError as error:
            raise _FullMapError(state) from error
        stage, partition = env.stage(task_input.task)
        if txn.changes and env.changelogs is not None and env.at_least_once:
            changelog = env.changelogs.of_task(stage.name, partition)
            _, _, changes = self._unstaged.setdefault(state.path, (state, changelog.partition, {}))
            changes.update(txn.changes)
        elif txn.changes and env.changelogs is not None:
            changelog = env.changelogs.of_task(stage.name, partition)
            staged = changelog.partition.stage(state.environment, raw, txn.changes)
            self._staged += [] if staged is None else [staged]
        elif txn.changes:
            commit = TaskCommit(f"{stage.name}/{partition}", before, report.commit, rows_of(txn.changes))
            self._commits.append(commit)
        return report, blocks

    def stored_blocks(self, env: TaskEnvironment, blocks: list[OutboxBlock]) -> list[OutboxBlock]:
        """Return all blocks; none with changelogs, where a committed batch is done and never runs again."""
        return blocks if env.changelogs is None else []

    def publish(self, env: TaskEnvironment, task_input: TaskInput, report: TaskReport, outputs: list[Output]) -> None:
        """Keep the output of a task until the whole batch is durable."""
        if env.changelogs is not None and report.replayed:  # committed when the app had no changelogs
            env.broker.append_once(env.producer(task_input.task), task_input.batch, outputs)
            return
        self._outputs.setdefault(env.producer(task_input.task), []).extend(outputs)

    def _transaction(self, state: TaskState) -> Any:
        txn = self._transactions.get(state.path)
        if txn is None:
            if not self._transactions:
                self._opened_at = time.monotonic()
            txn = self._transactions[state.path] = self._exit_stack.enter_context(state.writing())
        return txn

    def _bring_up_to_date(self, batch: Batch, versions: Mapping[str, StateVersion]) -> None:
        """Replay the journal if a failure has left the states behind it, and open all states."""
        if self._is_up_to_date:
            return
        if self._is_rolled_back:
            raise _rolled_back()
        if self._env.changelogs is None:
            self.journal.replay_commits(self._env.state_dir)
        else:
            self._check_not_done(batch)
            self._restore_states(self._env.changelogs, versions)
        for task in range(len(self._env.layout.tasks)):
            self._env.state(task)  # a new state needs its own transaction to be created
        self._is_up_to_date = True

    def _check_not_done(self, batch: Batch) -> None:
        """Raise if a batch has committed although its response was lost: its loop has to read the journal again."""
        self.journal.join()
        if self.journal.is_done(batch.number):
            raise EngineError(
                f"batch {batch.number} was committed, but the response of the broker was lost",
                hint="the run continues with the next batch",
                batch=batch.number,
            )

    def _restore_states(self, changelogs: TaskChangelogs, versions: Mapping[str, StateVersion]) -> None:
        """Restore the states that lack something; all of them if earlier tasks may have committed meanwhile."""
        if self._fence:
            tasks = [self._env.stage(task) for task in range(len(self._names))]
            claim_tasks(changelogs, list(dict.fromkeys((stage.name, partition) for stage, partition in tasks)))
        for task, name in enumerate(self._names):
            state = self._env.state(task)
            state.environment.open_databases((POSITIONS,))
            if self._fence or state.read_version().commit != versions.get(name, StateVersion()).commit:
                stage, partition = self._env.stage(task)
                changelogs.of_task(stage.name, partition).restore(state)
        self._fence = False

    def _commit_states(self) -> None:
        """Commit the open transactions of all tasks."""
        try:
            self._exit_stack.close()
        except BaseException:
            self._is_up_to_date = False
            raise
        finally:
            self._transactions.clear()
        if self._is_up_to_date:
            self._committed = self._applied

    def _abort(self) -> None:
        """Abort all transactions; the changes of earlier batches in them are in the journal."""
        self._is_up_to_date = False
        if self._uncommitted:
            self._is_rolled_back = True
            committed = self.journal.forget_uncommitted()
            self._deferred_reports = [report for report in self._deferred_reports if report.plan.number <= committed]
        self._unstaged.clear()
        self._uncommitted = 0
        self._transactions.clear()
        with suppress(_AbortedError):
            self._exit_stack.__exit__(_AbortedError, _AbortedError(), None)

    def _send_reports(self) -> None:
        for report in self._deferred_reports:
            self._on_batch(report)
        self._deferred_reports.clear()


def _rolled_back() -> EngineError:
    return EngineError(
        "published batches could not be committed",
        hint="they are run again, and their output is repeated, as guarantee='at_least_once' allows",
    )


class _AbortedError(Exception):
    """Makes transactions abort instead of commit."""


class _FullMapError(Exception):
    """A transaction was too large for the memory map of a state."""

    def __init__(self, state: TaskState) -> None:
        super().__init__(state.path)
        self.state = state
