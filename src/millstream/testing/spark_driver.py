"""A test driver that runs apps on Spark, to show that both produce the same results."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from millstream.app import App
from millstream.batch.report import BatchReport
from millstream.testing.driver import TestDriver


class SparkDriver(TestDriver):
    """Runs the app on Spark for each record, until it has caught up: lock, journal, planned batch, Spark job.

    Records that are piped while it is ``holding`` form one batch. Batches of more than ``single`` records run in
    parallel mode. The wall clock is the real one.
    """

    def __init__(self, app: App, *, partitions: int = 1, caching: bool = False, single: int = 2_000) -> None:
        app.config = msgspec.structs.replace(
            app.config, caching=caching, partitions=partitions, durability="os", small_batch_records=single
        )
        self._is_holding = False
        super().__init__(app, partitions=partitions, caching=caching)

    @contextmanager
    def holding(self) -> Iterator[None]:
        """Process the records that are piped inside the block when it ends, as one batch."""
        self._is_holding = True
        try:
            yield
        finally:
            self._is_holding = False
        self._settle()

    def _settle(self) -> None:
        if not self._is_holding:
            self.app.data_dir = self._directory
            self.app.start("caught-up", on_batch=self._add_report).wait()

    def _add_report(self, report: BatchReport) -> None:
        self.reports = report.tasks
        self.dropped.update(report.dropped)
