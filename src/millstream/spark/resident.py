"""Resident mode, in the driver: one Spark task that stays for up to a minute and runs small batches by itself."""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable
from pathlib import Path

from pyspark import RDD, InheritableThread, SparkContext

from millstream.batch.batch import Batch
from millstream.batch.control_socket import DriverSocket
from millstream.batch.journal import Journal
from millstream.batch.journal_changelog import JournalChangelog
from millstream.batch.journal_files import JournalFiles
from millstream.batch.lease import Lease
from millstream.batch.loop import Until
from millstream.batch.report import BatchReport
from millstream.batch.resident import ResidentSettings
from millstream.batch.shared_journal import SharedJournal
from millstream.batch.trigger import TriggerMode
from millstream.spark.failures import translated
from millstream.spark.header import AppHeader, ResidentHeader, encode_header
from millstream.spark.worker import results, run_resident

_RESIDENT_SECONDS = 60.0  # the first batch of the next resident task waits a tenth of a second for its Spark job
_POLL_SECONDS = 0.1
_IDLE_POLL_SECONDS = 0.25  # while the task has had no records for some seconds
_IDLE_AFTER_SECONDS = 5.0
_running: set[ResidentTask] = set()
"""The resident tasks of all apps of this process, which share its Spark."""
_running_lock = threading.Lock()


class ResidentTask:
    """Lets a Spark task run the small batches of an app.

    The task occupies one Spark slot. With ``trigger="auto"`` one slot is left for other jobs, and a run that ends when
    it has caught up uses no resident task; with ``"realtime"`` it is used whenever the backlog is small.
    """

    def __init__(
        self,
        context: SparkContext,
        header: AppHeader,
        lease: Lease,
        journal: Path,
        *,
        max_records: int,
        trigger: TriggerMode,
        changelog: SharedJournal | None = None,
    ) -> None:
        self._changelog = changelog
        self._fence = True
        """Whether tasks of an earlier run or attempt may still be running: only before the first resident task."""
        self._header = header
        self._lease = lease
        self._journal = journal
        self._max_records = max_records
        self._trigger = trigger
        self._slots = context.defaultParallelism - 1
        self._base: RDD[int] = context.parallelize(range(1), 1)

    def accepts(self, batch: Batch | None, until: Until) -> bool:
        """Whether the batch is small, and a slot is free."""
        is_small = batch is None or batch.records <= self._max_records
        if self._trigger == "realtime":
            return is_small and not (batch is None and until == "caught-up")
        return is_small and until == "stopped" and len(_running) < self._slots

    def run(
        self,
        until: Until,
        on_batch: Callable[[BatchReport], None],
        stopping: threading.Event,
        on_waiting: Callable[[], None],
    ) -> None:
        """Hand the lease to a resident task, pass on its reports, and take the lease back when it has returned."""
        with _running_lock:
            if self._trigger == "auto" and len(_running) >= self._slots:
                return  # another app took the last slot
            _running.add(self)
        try:
            self._run(until, on_batch, stopping, on_waiting)
        finally:
            _running.discard(self)

    def _run(
        self,
        until: Until,
        on_batch: Callable[[BatchReport], None],
        stopping: threading.Event,
        on_waiting: Callable[[], None],
    ) -> None:
        with DriverSocket() as control:
            control.on_waiting = on_waiting
            with translated():
                job = _Job(self._rdd(control.address, until))
            if self._changelog is not None:
                self._changelog.leave()
            self._lease.release()
            job.start()
            try:
                _pass_on_reports(job, control, on_batch, stopping)
            finally:
                control.close()  # which makes the task return
                job.join()
                self._lease.acquire()
                self._replay_commits()
        job.check()
        self._fence = False

    def _replay_commits(self) -> None:
        """Bring the states of the tasks up to date if the resident task has died."""
        tasks = self._header.tasks
        Journal(self._journal, durable=tasks.durable).replay_commits(Path(tasks.state_dir))

    def _rdd(self, socket: str, until: Until) -> RDD[tuple[int, bytes]]:
        changelog = self._changelog
        settings = ResidentSettings(
            journal=str(self._journal),
            lease=str(self._lease.path),
            socket=socket,
            until=until,
            seconds=_RESIDENT_SECONDS,
            max_records=self._max_records,
            journal_topic=changelog.topic if isinstance(changelog, JournalChangelog) else None,
            journal_checkpoint=changelog.uri if isinstance(changelog, JournalFiles) else None,
            owner=None if changelog is None else changelog.owner,
            fence=self._fence,
        )
        header = encode_header(ResidentHeader(app=self._header, settings=settings))
        return self._base.mapPartitions(functools.partial(run_resident, header))


class _Job:
    """A Spark job in its own thread, since it lasts as long as its task stays resident."""

    def __init__(self, rdd: RDD[tuple[int, bytes]]) -> None:
        self._rdd = rdd
        self._error: Exception | None = None
        self._thread = InheritableThread(self._collect, name="millstream-resident", daemon=True)
        self.start = self._thread.start
        self.join = self._thread.join
        self.is_alive = self._thread.is_alive

    def _collect(self) -> None:
        try:
            with translated():
                items = self._rdd.collect()
            results(items)
        except Exception as error:
            self._error = error

    def check(self) -> None:
        """Raise the error of the job, if it had one."""
        if self._error is not None:
            raise self._error


def _pass_on_reports(
    job: _Job, control: DriverSocket, on_batch: Callable[[BatchReport], None], stopping: threading.Event
) -> None:
    idle_from = time.monotonic() + _IDLE_AFTER_SECONDS
    while True:
        has_ended = not job.is_alive()
        is_idle = control.is_connected and time.monotonic() >= idle_from
        report = control.receive_report(0.0 if has_ended else _IDLE_POLL_SECONDS if is_idle else _POLL_SECONDS)
        if report is not None:
            idle_from = time.monotonic() + _IDLE_AFTER_SECONDS
            on_batch(report)
        elif has_ended:
            return
        if stopping.is_set():
            control.request_stop()
