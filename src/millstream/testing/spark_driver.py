"""The test driver's face with real runs on Spark behind it, to show that both give the same."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from millstream.app import App
from millstream.batch.report import BatchReport
from millstream.testing.driver import TestDriver


class SparkDriver(TestDriver):
    """Each record is a run of the app on Spark until it has caught up: lock, journal, planned batch, Spark job.

    What is piped in while it is ``holding`` is one batch. Batches of more than ``single`` records run in parallel. The
    wall clock is the real one.
    """

    def __init__(self, app: App, *, partitions: int = 1, caching: bool = False, single: int = 2_000) -> None:
        app.config = msgspec.structs.replace(
            app.config, caching=caching, partitions=partitions, durability="os", small_batch_records=single
        )
        self._holds = False
        super().__init__(app, partitions=partitions, caching=caching)

    @contextmanager
    def holding(self) -> Iterator[None]:
        """Process what is piped in inside of the block at its end, as one batch."""
        self._holds = True
        try:
            yield
        finally:
            self._holds = False
        self._settle()

    def _settle(self) -> None:
        if not self._holds:
            self.app.data_dir = self._directory
            self.app.start("caught-up", on_batch=self._note).wait()

    def _note(self, report: BatchReport) -> None:
        self.reports = report.tasks
        self.dropped.update(report.dropped)
