"""The resident gear from the driver: one Spark task that stays for seconds and runs small batches by itself."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from pathlib import Path

from pyspark import RDD, InheritableThread, SparkContext

from millstream.batch.batch import Batch
from millstream.batch.journal import Journal
from millstream.batch.lease import Lease
from millstream.batch.loop import Until
from millstream.batch.pace import Trigger
from millstream.batch.report import BatchReport
from millstream.batch.resident import Residence
from millstream.batch.wire import DriverEnd
from millstream.spark.failures import translated
from millstream.spark.header import AppHeader, ResidentHeader, encode_header
from millstream.spark.worker import results, run_resident

_STAY_SECONDS = 60.0  # between two stays a batch takes a tenth of a second longer, once in so long a time
_LOOK_SECONDS = 0.1
_staying: set[ResidentTask] = set()
"""Those of all apps of this process, which share its Spark."""
_staying_lock = threading.Lock()


class ResidentTask:
    """Lets a Spark task run the small batches of an app.

    It takes one of Spark's slots while it stays. With ``trigger="auto"`` one slot is left for others, and a run that
    ends when it has caught up does without; ``"realtime"`` takes it whenever there is little to do.
    """

    def __init__(
        self, context: SparkContext, header: AppHeader, lease: Lease, journal: Path, *, most: int, trigger: Trigger
    ) -> None:
        self._header = header
        self._lease = lease
        self._journal = journal
        self._most = most
        self._trigger = trigger
        self._slots = context.defaultParallelism - 1
        self._base: RDD[int] = context.parallelize(range(1), 1)

    def suits(self, plan: Batch | None, until: Until) -> bool:
        """Whether there is little to do, and a slot to do it in."""
        is_small = plan is None or plan.records <= self._most
        if self._trigger == "realtime":
            return is_small and not (plan is None and until == "caught-up")
        return is_small and until == "stopped" and len(_staying) < self._slots

    def __call__(self, until: Until, on_batch: Callable[[BatchReport], None], stopping: threading.Event) -> None:
        """Give the lease to a task, pass on its reports, and take the lease back when it has returned."""
        with _staying_lock:
            if self._trigger == "auto" and len(_staying) >= self._slots:
                return  # another app was quicker
            _staying.add(self)
        try:
            self._stay(until, on_batch, stopping)
        finally:
            _staying.discard(self)

    def _stay(self, until: Until, on_batch: Callable[[BatchReport], None], stopping: threading.Event) -> None:
        with DriverEnd() as wire:
            job = _Job(self._task(wire.address, until))
            self._lease.give_back()
            job.start()
            try:
                _follow(job, wire, on_batch, stopping)
            finally:
                wire.close()  # upon which the task leaves
                job.join()
                self._lease.take()
                self._settle()
        job.check()

    def _settle(self) -> None:
        """Make good what the task could not do any more if it died."""
        tasks = self._header.tasks
        Journal(self._journal, durable=tasks.durable).settle(Path(tasks.state_dir))

    def _task(self, wire: str, until: Until) -> RDD[tuple[int, bytes]]:
        terms = Residence(
            journal=str(self._journal),
            lease=str(self._lease.path),
            wire=wire,
            until=until,
            seconds=_STAY_SECONDS,
            most=self._most,
        )
        header = encode_header(ResidentHeader(app=self._header, terms=terms))
        return self._base.mapPartitions(functools.partial(run_resident, header))


class _Job:
    """A Spark job in a thread of its own, since it takes as long as its task stays."""

    def __init__(self, rdd: RDD[tuple[int, bytes]]) -> None:
        self._rdd = rdd
        self._error: Exception | None = None
        self._thread = InheritableThread(self._work, name="millstream-resident", daemon=True)
        self.start = self._thread.start
        self.join = self._thread.join
        self.is_alive = self._thread.is_alive

    def _work(self) -> None:
        try:
            with translated():
                items = self._rdd.collect()
            results(items)
        except Exception as error:
            self._error = error

    def check(self) -> None:
        if self._error is not None:
            raise self._error


def _follow(job: _Job, wire: DriverEnd, on_batch: Callable[[BatchReport], None], stopping: threading.Event) -> None:
    while True:
        ends = not job.is_alive()
        report = wire.report(0.0 if ends else _LOOK_SECONDS)
        if report is not None:
            on_batch(report)
        elif ends:
            return
        if stopping.is_set():
            wire.ask_to_leave()
