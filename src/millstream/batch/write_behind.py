"""Write the state of a resident task behind its journal: one commit per batch, the task states are committed later.

In the other execution modes a batch waits for the disk once for its plan, once for each task and once for each task
that publishes. Here the tasks of a batch run in transactions that stay open. Their changes are written to the journal,
in the commit that also stores the batch and marks the batch before as done; then all output is published in one pass.
The transactions commit later, for many batches together. If the process dies before that, the journal contains
everything: ``Journal.replay_commits`` brings the state of each task up to date, outboxes included, and any execution
mode can continue from there.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from millstream.batch.batch import Batch, Progress
from millstream.batch.execute import run_batch
from millstream.batch.journal import Journal
from millstream.batch.report import BatchReport
from millstream.broker import Output, append_together
from millstream.foundation.storage import MapFullError, translate_storage_errors
from millstream.state.recording import rows_of
from millstream.state.redo import TaskCommit
from millstream.state.task import StateVersion, TaskState
from millstream.task.environment import TaskEnvironment
from millstream.task.report import TaskReport
from millstream.task.runner import Applied, Apply
from millstream.task.task_input import TaskInput

_COMMIT_SECONDS = 0.1
"""The longest time until readers of a table see the changes of a batch."""


def can_write_behind(env: TaskEnvironment) -> bool:
    """Whether batches change nothing but the states of tasks: no copies of global tables, no checkpoint."""
    return env.checkpoint is None and not env.layout.plan.global_tables


class DeferredJournal(Journal):
    """A journal that defers the writes of the loop until a batch is committed."""

    def __init__(self, path: Path, *, durable: bool = True) -> None:
        super().__init__(path, durable=durable)
        self._deferred: tuple[Progress, Batch | None, BatchReport | None] | None = None
        self._progress = Progress()

    def read(self) -> tuple[Progress, Batch | None]:
        """Return the content of the journal."""
        self._progress, planned = super().read()
        return self._progress, planned

    def write(self, progress: Progress, planned: Batch | None, report: BatchReport | None = None) -> None:
        """Defer a write; a report that is not stored yet is kept."""
        if report is None and self._deferred is not None:
            report = self._deferred[2]
        self._deferred = progress, planned, report
        self._progress = progress

    def write_batch(self, batch: Batch, commits: list[TaskCommit], committed: int) -> None:
        """Store the deferred write together with a batch and the commits of its tasks."""
        report = None if self._deferred is None else self._deferred[2]
        self.write_with_commits(self._progress, batch, report, commits, committed=committed)
        self._deferred = None

    def flush(self) -> None:
        """Store the deferred write by itself."""
        if self._deferred is not None:
            super().write(*self._deferred)
            self._deferred = None


class WriteBehind:
    """Runs batches in this process; their loop has to use ``journal``."""

    def __init__(
        self, env: TaskEnvironment, journal: DeferredJournal, on_batch: Callable[[BatchReport], None] = lambda _: None
    ) -> None:
        self.journal = journal
        self._env = env
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
        self._is_up_to_date = False

    def __call__(self, batch: Batch, versions: Mapping[str, StateVersion]) -> list[TaskReport]:
        """Run a batch; its changes and its output are durable before any of the output is published."""
        reports = self._run_durably(batch, versions)
        self._send_reports()
        if self._outputs:
            began = time.perf_counter()
            append_together(self._env.broker, batch.number, self._outputs)
            seconds = time.perf_counter() - began
            for report in reports:
                report.publish_seconds = seconds if report.records_out else 0.0
        if self._transactions and time.monotonic() - self._opened_at >= _COMMIT_SECONDS:
            self._commit_states()
        return reports

    def defer_report(self, report: BatchReport) -> None:
        """Keep a report until its batch is marked as done."""
        self._deferred_reports.append(report)

    def flush(self) -> None:
        """Write everything that was deferred."""
        self.journal.flush()
        self._send_reports()
        self._commit_states()

    def close(self) -> None:
        """Leave nothing that other execution modes do not expect; call it at the end, also after an error."""
        self.flush()
        self.journal.replay_commits(self._env.state_dir)

    def _run_durably(self, batch: Batch, versions: Mapping[str, StateVersion]) -> list[TaskReport]:
        while True:
            self._bring_up_to_date()
            self._commits, self._outputs = [], {}
            try:
                reports = run_batch(self._env, batch, versions, committer=self)
                self.journal.write_batch(batch, self._commits, self._committed)
            except _FullMapError as full:
                self._abort()
                full.state.grow()
            except BaseException:
                self._abort()
                raise
            else:
                self._applied = batch.number
                return reports

    def commit(self, env: TaskEnvironment, task_input: TaskInput, state: TaskState, apply: Apply) -> Applied:
        """Apply a task inside its open transaction, and keep its changes for the journal."""
        txn = state.recorded(self._transaction(state))
        before = state.version(txn).commit
        try:
            with translate_storage_errors(state.path):
                report, blocks = apply(txn)
        except MapFullError as error:
            raise _FullMapError(state) from error
        if txn.changes:
            stage, partition = env.stage(task_input.task)
            commit = TaskCommit(f"{stage.name}/{partition}", before, report.commit, rows_of(txn.changes))
            self._commits.append(commit)
        return report, blocks

    def publish(self, env: TaskEnvironment, task_input: TaskInput, outputs: list[Output]) -> None:
        """Keep the output of a task until the whole batch is durable."""
        self._outputs.setdefault(env.producer(task_input.task), []).extend(outputs)

    def _transaction(self, state: TaskState) -> Any:
        txn = self._transactions.get(state.path)
        if txn is None:
            if not self._transactions:
                self._opened_at = time.monotonic()
            txn = self._transactions[state.path] = self._exit_stack.enter_context(state.writing())
        return txn

    def _bring_up_to_date(self) -> None:
        """Replay the journal if a failure has left the states behind it, and open all states."""
        if not self._is_up_to_date:
            self.journal.replay_commits(self._env.state_dir)
            for task in range(len(self._env.layout.tasks)):
                self._env.state(task)  # a new state needs its own transaction to be created
            self._is_up_to_date = True

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
        self._transactions.clear()
        with suppress(_AbortedError):
            self._exit_stack.__exit__(_AbortedError, _AbortedError(), None)

    def _send_reports(self) -> None:
        for report in self._deferred_reports:
            self._on_batch(report)
        self._deferred_reports.clear()


class _AbortedError(Exception):
    """Makes transactions abort instead of commit."""


class _FullMapError(Exception):
    """A transaction was too large for the memory map of a state."""

    def __init__(self, state: TaskState) -> None:
        super().__init__(state.path)
        self.state = state
