"""Small batches of a process that stays: one commit each, and the state of their tasks when there is time.

Run as elsewhere, a batch waits for the disk once for its plan, once for each task and once for each task that
publishes. Here the tasks of a batch run inside transactions that stay open. What they changed is written to the
journal, together with the plan of the batch and the news that the one before is done; then everything is published at
once. The transactions commit later, for many batches together. Whatever dies before that, the journal has all of it:
``Journal.settle`` brings the state of each task to where it was, outboxes included, from where any gear goes on.
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

SETTLE_SECONDS = 0.1
"""After so long, at most, readers of a table see what a batch has changed."""


def may_write_behind(site: TaskEnvironment) -> bool:
    """Whether the state of its tasks is all that a batch changes: no copies of tables, no checkpoint elsewhere."""
    return site.checkpoint is None and not site.layout.plan.global_tables


class PatientJournal(Journal):
    """A journal that waits with what the loop has to note until there is something to commit it with."""

    def __init__(self, path: Path, *, durable: bool = True) -> None:
        super().__init__(path, durable=durable)
        self._kept: tuple[Progress, Batch | None, BatchReport | None] | None = None
        self._progress = Progress()

    def read(self) -> tuple[Progress, Batch | None]:
        """Return what is in the journal, and remember how far the app is."""
        self._progress, planned = super().read()
        return self._progress, planned

    def write(self, progress: Progress, planned: Batch | None, report: BatchReport | None = None) -> None:
        """Remember what is to be noted; a report stays until it is stored."""
        if report is None and self._kept is not None:
            report = self._kept[2]
        self._kept = progress, planned, report
        self._progress = progress

    def apply(self, planned: Batch, commits: list[TaskCommit], settled: int) -> None:
        """Note what was kept, with what a batch has changed."""
        report = None if self._kept is None else self._kept[2]
        self.write_applied(self._progress, planned, report, commits, settled=settled)
        self._kept = None

    def flush(self) -> None:
        """Note what was kept by itself."""
        if self._kept is not None:
            super().write(*self._kept)
            self._kept = None


class WriteBehind:
    """Executes batches in this process; ``journal`` is the one that their loop has to use."""

    def __init__(
        self, site: TaskEnvironment, journal: PatientJournal, on_batch: Callable[[BatchReport], None] = lambda _: None
    ) -> None:
        self.journal = journal
        self._site = site
        self._on_batch = on_batch
        self._untold: list[BatchReport] = []
        self._open = ExitStack()
        self._transactions: dict[Path, Any] = {}
        """Those that are open, by the directory of the state."""
        self._opened_at = 0.0
        self._applied = 0
        self._settled = 0
        self._commits: list[TaskCommit] = []
        self._outputs: dict[str, list[Output]] = {}
        self._is_sound = False

    def __call__(self, plan: Batch, versions: Mapping[str, StateVersion]) -> list[TaskReport]:
        """Run a batch: all that it does to state and topics is durable before anything of it is published."""
        reports = self._run_durably(plan, versions)
        self._tell_all()
        if self._outputs:
            began = time.perf_counter()
            append_together(self._site.broker, plan.number, self._outputs)
            seconds = time.perf_counter() - began
            for report in reports:
                report.publish_seconds = seconds if report.records_out else 0.0
        if self._transactions and time.monotonic() - self._opened_at >= SETTLE_SECONDS:
            self._settle()
        return reports

    def tell(self, report: BatchReport) -> None:
        """Pass a report on as soon as its batch is noted as done."""
        self._untold.append(report)

    def rest(self) -> None:
        """Write down everything that was put off, since there is nothing else to do."""
        self.journal.flush()
        self._tell_all()
        self._settle()

    def close(self) -> None:
        """Leave everything as any other gear finds it; call it at the end, however that came."""
        self.rest()
        self.journal.settle(self._site.state_dir)

    def _run_durably(self, plan: Batch, versions: Mapping[str, StateVersion]) -> list[TaskReport]:
        while True:
            self._make_sound()
            self._commits, self._outputs = [], {}
            try:
                reports = run_batch(self._site, plan, versions, committer=self)
                self.journal.apply(plan, self._commits, self._settled)
            except _FullMapError as full:
                self._drop()
                full.state.grow()
            except BaseException:
                self._drop()
                raise
            else:
                self._applied = plan.number
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
            txn = self._transactions[state.path] = self._open.enter_context(state.writing())
        return txn

    def _make_sound(self) -> None:
        """Bring the state to where the journal is, if a failure has made it fall behind; open all of it once."""
        if not self._is_sound:
            self.journal.settle(self._site.state_dir)
            for task in range(len(self._site.layout.tasks)):
                self._site.state(task)  # what it creates needs a transaction of its own
            self._is_sound = True

    def _settle(self) -> None:
        """Commit the state of all tasks."""
        try:
            self._open.close()
        except BaseException:
            self._is_sound = False
            raise
        finally:
            self._transactions.clear()
        if self._is_sound:
            self._settled = self._applied

    def _drop(self) -> None:
        """Let go of all transactions: what they hold of earlier batches is in the journal."""
        self._is_sound = False
        self._transactions.clear()
        with suppress(_DroppedError):
            self._open.__exit__(_DroppedError, _DroppedError(), None)

    def _tell_all(self) -> None:
        for report in self._untold:
            self._on_batch(report)
        self._untold.clear()


class _DroppedError(Exception):
    """Ends transactions that are not to be committed."""


class _FullMapError(Exception):
    """A transaction was too large for the map of a state."""

    def __init__(self, state: TaskState) -> None:
        super().__init__(state.path)
        self.state = state
