"""A test driver that runs batches in process as the execution modes do on Spark, with restarts between them."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Mapping
from typing import Literal

from millstream.app import App
from millstream.batch.batch import Batch
from millstream.batch.execute import ShuffleInputs, run_batch, run_tasks
from millstream.batch.write_behind import DeferredJournal, WriteBehind, can_write_behind
from millstream.foundation.paths import app_dir, journal_dir
from millstream.foundation.storage import close_environments
from millstream.state.task import StateVersion
from millstream.task.report import TaskReport
from millstream.testing.driver import TestDriver

Mode = Literal["single", "parallel", "resident"]
MODES: tuple[Mode, ...] = ("single", "parallel", "resident")


class BatchDriver(TestDriver):
    """Runs the tasks of a batch as an execution mode does, without Spark, so that thousands of apps can be compared.

    - ``single``: all tasks in order; each commits by itself.
    - ``parallel``: the tasks of each level are divided into ``width`` parts, which run in random order.
    - ``resident``: state is written behind the journal.
    """

    def __init__(
        self,
        app: App,
        *,
        partitions: int = 1,
        caching: bool = False,
        mode: Mode = "single",
        width: int = 3,
        seed: int = 0,
    ) -> None:
        self._mode = mode
        self._width = width
        self._random = random.Random(seed)
        self._behind: WriteBehind | None = None
        self._last: tuple[Batch, Mapping[str, StateVersion]] | None = None
        super().__init__(app, partitions=partitions, caching=caching)

    def restart(self, *, crash: bool = False) -> None:
        """Stop the app and start it again: nothing survives that is only in memory.

        After a ``crash`` the last batch is not marked as done, so it runs again; its results must not change.
        """
        if crash and self._behind is not None:
            self._behind._abort()
        else:
            self.flush()
        close_environments(app_dir(self._directory, self.app.id))
        self._start()
        if crash and self._last is not None:
            self._run(*self._last)

    def flush(self) -> None:
        """Commit what resident mode has not yet written to the states of tasks, so that tables can be read."""
        if self._behind is not None:
            self._behind.journal.write(self._progress, None)
            self._behind.close()

    def close(self) -> None:
        """Delete all topics and state."""
        if self._behind is not None:
            self._behind._abort()
        super().close()

    def _start(self) -> None:
        super()._start()
        if self._mode == "resident" and can_write_behind(self._environment):
            journal = DeferredJournal(journal_dir(self._directory, self.app.id), durable=False)
            self._behind = WriteBehind(self._environment, journal)

    def _execute(self, batch: Batch) -> list[TaskReport]:
        self._last = batch, self._progress.versions
        if self._behind is not None:
            self._behind.journal.write(self._progress, batch)
        return self._run(*self._last)

    def _run(self, batch: Batch, versions: Mapping[str, StateVersion]) -> list[TaskReport]:
        if self._mode == "parallel":
            return self._run_parts(batch, versions)
        if self._behind is not None:
            return self._behind(batch, versions)
        return run_batch(self._environment, batch, versions)

    def _run_parts(self, batch: Batch, versions: Mapping[str, StateVersion]) -> list[TaskReport]:
        inputs: ShuffleInputs = defaultdict(list)
        reports: list[TaskReport] = []
        for level in range(self._environment.layout.plan.levels):
            tasks = self._environment.layout.tasks_on(level)
            parts = [tasks[number :: self._width] for number in range(self._width)]
            outputs = [
                output
                for number in self._random.sample(range(self._width), self._width)
                for output in run_tasks(
                    self._environment, batch, versions, parts[number], inputs, is_first=(level, number) == (0, 0)
                )
            ]
            for report, sent in outputs:
                reports.append(report)
                for receiver, data in sent:
                    inputs[receiver].append(data)
        return reports
