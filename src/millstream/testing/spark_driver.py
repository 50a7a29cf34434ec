"""A test driver that runs apps on Spark, to show that both produce the same results."""

from __future__ import annotations

import msgspec

from millstream.app import App
from millstream.batch.report import BatchReport
from millstream.batch.trigger import TriggerMode
from millstream.testing.batch_driver import Mode
from millstream.testing.driver import TestDriver

_SMALL_BATCH = 2_000


class SparkDriver(TestDriver):
    """Runs the app on Spark for each record, until it has caught up: lock, journal, planned batch, Spark job.

    Records that are piped while it is ``holding`` form one batch. ``mode`` is the execution mode of all batches, of up
    to 2,000 records each. The wall clock is the real one.
    """

    def __init__(self, app: App, *, partitions: int = 1, caching: bool = False, mode: Mode = "single") -> None:
        app.config = msgspec.structs.replace(
            app.config,
            caching=caching,
            partitions=partitions,
            durability="os",
            small_batch_records=0 if mode == "parallel" else _SMALL_BATCH,
        )
        self._mode = mode
        super().__init__(app, partitions=partitions, caching=caching)

    def _settle(self) -> None:
        if not self._is_holding:
            self.app.data_dir = self._directory
            trigger: TriggerMode = "realtime" if self._mode == "resident" else "auto"
            self.app.start("caught-up", trigger=trigger, on_batch=self._add_report).wait()

    def _add_report(self, report: BatchReport) -> None:
        self.reports = report.tasks
        self.dropped.update(report.dropped)
