"""A running app: its lock, its loop in a thread, and how it is stopped."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

import msgspec
from pyspark import SparkContext

from millstream.admin.filling import remove_fill, requested_fill
from millstream.admin.journals import open_journal
from millstream.admin.presence import Presence
from millstream.admin.savepoints import finish_restore
from millstream.batch.activity import Activity, HeartbeatFile
from millstream.batch.app_spec import AppSettings, AppSpec
from millstream.batch.fill import FillProgress
from millstream.batch.journal_changelog import JournalChangelog
from millstream.batch.lease import Lease
from millstream.batch.loop import LoopOptions, Until
from millstream.batch.report import BatchReport
from millstream.batch.restoring import Restoring
from millstream.batch.shared_journal import Owner
from millstream.batch.supervisor import Supervisor
from millstream.batch.takeover_watch import TakeoverWatch
from millstream.batch.trigger import Trigger
from millstream.batch.watchdog import Watchdog
from millstream.broker import SupportsMembership
from millstream.broker_urls import open_broker
from millstream.connect.running import Connectors
from millstream.connect.sinks import sinks_of
from millstream.connect.sources import sources_of
from millstream.durations import milliseconds
from millstream.errors import AlreadyRunningError, FencedError, ProcessingError
from millstream.foundation.file_lock import FileLock
from millstream.foundation.open_files import raise_open_file_limit
from millstream.foundation.paths import activity_file, lease_file, lock_file
from millstream.foundation.storage import make_private_directory, translate_storage_errors
from millstream.metrics.prometheus import MetricsServer
from millstream.operations.alert_watch import AlertWatch
from millstream.operations.data_directory import DataDirectory
from millstream.spark.deliveries import deliveries_of
from millstream.spark.deployment import Deployment
from millstream.spark.filling import Filling


class SparkRun:
    """One run of an app, from acquiring the lock to draining."""

    def __init__(
        self,
        app: str,
        held: ExitStack,
        supervisor: Supervisor,
        stopping: threading.Event,
        connectors: Connectors,
        until: Until,
        deployment: Deployment,
        metrics_url: str | None,
        filling: Filling | None,
        options: LoopOptions,
    ) -> None:
        self.app = app
        self.changes = deployment.changes
        """What has changed in each stage since the last start; empty at the first start."""
        self.waiting_records = deployment.waiting_records
        """The number of records that were waiting at the start."""
        self.expired: dict[str, int] = {} if filling is None else filling.expired
        """By topic, how many records retention has deleted that tables cannot be filled with."""
        self._filling = filling
        self._options = options
        self.metrics_url = metrics_url
        """The address of the metrics endpoint, if there is one."""
        self._held = held
        self._supervisor = supervisor
        self._stopping = stopping
        self._connectors = connectors
        self._error: BaseException | None = None
        self._cancel = deployment.cancel
        held.callback(TakeoverWatch(deployment.journal, self._stop_fenced).close)
        self._thread = threading.Thread(target=self._work, args=(until,), name="millstream-loop", daemon=True)
        self._thread.start()

    @classmethod
    def start(
        cls,
        spec: AppSpec,
        until: Until,
        on_batch: Callable[[BatchReport], None] | None,
        trigger: Trigger | None = None,
        reset: Collection[str] = (),
        fill: Collection[str] = (),
        on_fill: Callable[[FillProgress], None] | None = None,
    ) -> SparkRun:
        """Acquire the app's lock, lay out its tasks, start Spark and the loop."""
        raise_open_file_limit()
        trigger = trigger or Trigger()
        with translate_storage_errors(spec.data_dir):
            make_private_directory(spec.data_dir)
        with ExitStack() as held:
            held.callback(_acquire_lock(spec).release)
            lease = Lease(spec.id, lease_file(spec.data_dir, spec.id))
            lease.acquire()
            held.callback(lease.release)
            broker = open_broker(spec.broker_url, spec.data_dir, durability=spec.config.durability)
            held.callback(broker.close)
            options = LoopOptions(on_batch=_naming_errors(on_batch), every_seconds=trigger.every_seconds)
            journal = open_journal(spec, broker, Owner.new(), Restoring(options.activity))
            held.callback(journal.leave)
            if isinstance(journal.changelog, JournalChangelog) and isinstance(broker, SupportsMembership):
                held.callback(Presence(spec.id, broker).close)
            deployment = Deployment(spec, broker, journal, lease, trigger, options.activity)
            held.callback(deployment.close)
            held.callback(_watchdog(spec, deployment, options.activity).close)
            filling = _filling(deployment, fill, reset, lease, on_fill)
            supervisor = Supervisor(
                spec.id,
                journal,
                lambda: deployment.loop(options),
                stopping=options.stopping,
                activity=options.activity,
                lay_out_again=deployment.lay_out,
            )
            if until == "stopped":
                held.callback(_watch_alerts(spec))
            outside = [*sources_of(spec, broker), *sinks_of(spec, broker), *deliveries_of(spec, broker)]
            port = spec.config.metrics_port
            metrics = None if port is None else MetricsServer(spec.data_dir, port)
            if metrics is not None:
                held.callback(metrics.close)
            url = None if metrics is None else metrics.url
            return cls(
                spec.id,
                held.pop_all(),
                supervisor,
                options.stopping,
                Connectors(spec, outside),
                until,
                deployment,
                url,
                filling,
                options,
            )

    def _work(self, until: Until) -> None:
        try:
            with self._connectors.beside(until, self.stop):
                if self._filling is not None:
                    self._filling.run(until, self._options)
                if not self._stopping.is_set():
                    self._supervisor.run(until)
        except BaseException as error:
            self._error = self._error or error
        finally:
            self._held.close()

    def _stop_fenced(self, error: FencedError) -> None:
        """End the run because another one has taken over, whatever it is waiting for."""
        self._error = error
        self.stop()
        self._cancel()

    def __repr__(self) -> str:
        if self._thread.is_alive():
            state = "stopping" if self._stopping.is_set() else "running"
        else:
            state = "ended" if self._error is None else f"failed: {type(self._error).__name__}: {self._error}"
        return f"<run of app {self.app}, {state}>"

    @property
    def obstacle(self) -> str:
        """What keeps the run from making progress, such as an error after which it retries; else empty."""
        return self._options.activity.obstacle

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def stop(self) -> None:
        """Make the run finish its batch and end; does not wait for it."""
        self._stopping.set()
        if self._filling is not None:
            self._filling.stop()

    def wait(self, timeout: float | None = None, *, handle_signals: bool = False) -> bool:
        """Wait for the end and raise the error that caused it, if any; False if the run has not ended in time."""
        if handle_signals and threading.current_thread() is threading.main_thread():
            with self._draining_on_signals():
                self._thread.join(timeout)
        else:
            self._thread.join(timeout)
        if self._thread.is_alive():
            return False
        if self._error is not None:
            raise self._error
        return True

    @contextmanager
    def _draining_on_signals(self) -> Iterator[None]:
        """Drain on the first Ctrl-C or SIGTERM; a second Ctrl-C interrupts."""

        def drain(*_: Any) -> None:
            self.stop()
            signal.signal(signal.SIGINT, signal.default_int_handler)

        before = {number: signal.signal(number, drain) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def _filling(
    deployment: Deployment,
    tables: Collection[str],
    reset: Collection[str],
    lease: Lease,
    on_fill: Callable[[FillProgress], None] | None,
) -> Filling | None:
    """Lay the app out; if tables are to be filled from the past, without them, and return what fills them."""
    whole = deployment.spec
    fill = requested_fill(whole.plan, whole.config, whole.data_dir, whole.id, deployment.journal, tables)
    if fill is None:
        deployment.lay_out(reset)  # completes the merge of a fill if an earlier run died in it
        remove_fill(whole.data_dir, whole.id)
        return None
    config = msgspec.structs.replace(whole.config, small_batch_records=0)
    deployment.spec = replace(whole, plan=fill.remaining.of(whole.plan), part=fill.remaining, config=config)
    deployment.lay_out(reset)
    return Filling(whole, fill, deployment, lease, on_fill or _ignore_progress)


def _ignore_progress(_progress: FillProgress) -> None:
    """Report nothing."""


def _naming_errors(on_batch: Callable[[BatchReport], None] | None) -> Callable[[BatchReport], None] | None:
    """Return the user's function, whose errors end the run as errors of user code."""
    if on_batch is None:
        return None

    def call(report: BatchReport) -> None:
        try:
            on_batch(report)
        except Exception as error:
            raise ProcessingError(
                f"on_batch failed after batch {report.plan.number}: {type(error).__name__}: {error}",
                hint="the batch is done; correct the function that was given to run() or start()",
            ) from error

    return call


def stop_spark() -> None:
    """Stop the Spark of this process, if it is running."""
    context = SparkContext._active_spark_context
    if context is not None:
        context.stop()


def _acquire_lock(app: AppSettings) -> FileLock:
    finish_restore(app.data_dir, app.id)
    lock = FileLock(lock_file(app.data_dir, app.id))
    if not lock.acquire(timeout=0.1):
        raise AlreadyRunningError(
            f"app {app.id!r} is already running on {str(app.data_dir)!r} (process {lock.holder()})",
            hint="stop it first: app.stop()"
            if lock.holder() == os.getpid()
            else "stop that run first, or give this one another id or data_dir",
            process=lock.holder(),
        )
    return lock


def _watch_alerts(app: AppSettings) -> Callable[[], None]:
    """Evaluate the alert rules of the data directory, unless another process does; return what ends it."""
    directory = DataDirectory(app.data_dir, app.broker_url)
    watch = AlertWatch(directory)
    watch.start()

    def end() -> None:
        watch.stop()
        directory.close()

    return end


def _watchdog(app: AppSettings, deployment: Deployment, activity: Activity) -> Watchdog:
    limit = app.config.stuck_after
    return Watchdog(
        app.id,
        activity,
        HeartbeatFile(activity_file(app.data_dir, app.id), guarantee=app.config.guarantee),
        stuck_after=None if limit is None else milliseconds(limit) / 1000,
        detail=deployment.describe_jobs,
        cancel=deployment.cancel,
    )
