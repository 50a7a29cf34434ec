"""A running app: its lock, its loop in a thread, and how it is stopped."""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from pyspark import SparkContext

from millstream.admin.inputs import bind_inputs, check_cluster
from millstream.admin.savepoints import finish_restore
from millstream.admin.upgrade import upgrade
from millstream.batch.activity import Activity, HeartbeatFile
from millstream.batch.app_spec import AppSettings, AppSpec
from millstream.batch.assembly import Assembly, TaskSettings, batch_size
from millstream.batch.journal import Journal
from millstream.batch.lease import Lease
from millstream.batch.logs import log_event
from millstream.batch.loop import BatchLoop, LoopOptions, Until
from millstream.batch.report import BatchReport
from millstream.batch.supervisor import Supervisor
from millstream.batch.topics import lay_out, read_topics
from millstream.batch.trigger import Trigger
from millstream.batch.watchdog import Watchdog
from millstream.broker import Broker
from millstream.broker_urls import open_broker
from millstream.durations import milliseconds
from millstream.errors import AlreadyRunningError, ProcessingError
from millstream.foundation.file_lock import FileLock
from millstream.foundation.open_files import raise_open_file_limit
from millstream.foundation.paths import activity_file, journal_dir, lease_file, lock_file, state_dir
from millstream.foundation.storage import make_private_directory, translate_storage_errors
from millstream.metrics.prometheus import MetricsServer
from millstream.plan.changes import StageChange, is_unchanged
from millstream.plan.layout import Layout
from millstream.spark.deliveries import Deliveries
from millstream.spark.engine import SparkEngine
from millstream.tables.opening import catalog_of
from millstream.task.policy import Policies

_log = logging.getLogger(__name__)


class SparkRun:
    """One run of an app, from acquiring the lock to draining."""

    def __init__(
        self,
        app: str,
        held: ExitStack,
        supervisor: Supervisor,
        stopping: threading.Event,
        deliveries: Deliveries,
        until: Until,
        deployment: _Deployment,
        metrics_url: str | None,
    ) -> None:
        self.app = app
        self.changes = deployment.changes
        """What has changed in each stage since the last start; empty at the first start."""
        self.waiting_records = deployment.waiting_records
        """The number of records that were waiting at the start."""
        self.metrics_url = metrics_url
        """The address of the metrics endpoint, if there is one."""
        self._held = held
        self._supervisor = supervisor
        self._stopping = stopping
        self._deliveries = deliveries
        self._error: BaseException | None = None
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
            journal = Journal(journal_dir(spec.data_dir, spec.id), durable=spec.is_durable)
            check_cluster(spec.id, journal, broker)
            deployment = _Deployment(spec, broker, journal, lease, trigger)
            deployment.lay_out(reset)
            options = LoopOptions(on_batch=_naming_errors(on_batch), every_seconds=trigger.every_seconds)
            supervisor = Supervisor(
                spec.id,
                journal,
                lambda: deployment.loop(options),
                stopping=options.stopping,
                activity=options.activity,
                lay_out_again=deployment.lay_out,
            )
            deliveries = Deliveries(spec, broker)
            held.callback(_watchdog(spec, deployment, options.activity).close)
            port = spec.config.metrics_port
            metrics = None if port is None else MetricsServer(spec.data_dir, port)
            if metrics is not None:
                held.callback(metrics.close)
            url = None if metrics is None else metrics.url
            return cls(spec.id, held.pop_all(), supervisor, options.stopping, deliveries, until, deployment, url)

    def _work(self, until: Until) -> None:
        try:
            with self._deliveries.beside(until, self._stopping.set):
                self._supervisor.run(until)
        except BaseException as error:
            self._error = error
        finally:
            self._held.close()

    def __repr__(self) -> str:
        if self._thread.is_alive():
            state = "stopping" if self._stopping.is_set() else "running"
        else:
            state = "ended" if self._error is None else f"failed: {type(self._error).__name__}: {self._error}"
        return f"<run of app {self.app}, {state}>"

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def stop(self) -> None:
        """Make the run finish its batch and end; does not wait for it."""
        self._stopping.set()

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


class _Deployment:
    """The parts of a run that depend on the partitions of the topics: the layout, and the engine for its tasks."""

    def __init__(self, spec: AppSpec, broker: Broker, journal: Journal, lease: Lease, trigger: Trigger) -> None:
        self._spec = spec
        self._broker = broker
        self._journal = journal
        self._lease = lease
        self._trigger = trigger

    def lay_out(self, reset: Collection[str] = ()) -> None:
        """Lay the app out over the current partitions of its topics; raises an error if its state does not fit them."""
        spec, broker, journal = self._spec, self._broker, self._journal
        layout = lay_out(spec, broker, journal.catalog().get("partitions", {}))
        bind_inputs(spec.id, journal, broker, read_topics(spec, broker))
        self.changes = _upgrade(spec, broker, layout, journal, reset)
        self.assembly = Assembly(TaskSettings.of(spec, journal.lineage()), layout, broker)
        backlog = self.assembly.planner(batch_size(spec.config)).backlog(journal.read()[0])
        self.waiting_records = sum(waiting.stop - waiting.start for waiting in backlog)
        self.engine = SparkEngine(spec, self.assembly, self._lease, self._trigger)

    def describe_jobs(self) -> str:
        """Describe what the engine is running."""
        return self.engine.describe_jobs()

    def cancel(self) -> None:
        """Cancel the jobs of the engine."""
        self.engine.cancel()

    def loop(self, options: LoopOptions) -> BatchLoop:
        """Return the loop of the next attempt."""
        return self.assembly.engine_loop(self._journal, self._spec.config, self.engine, options)


def _watchdog(app: AppSettings, deployment: _Deployment, activity: Activity) -> Watchdog:
    limit = app.config.stuck_after
    return Watchdog(
        app.id,
        activity,
        HeartbeatFile(activity_file(app.data_dir, app.id)),
        stuck_after=None if limit is None else milliseconds(limit) / 1000,
        detail=deployment.describe_jobs,
        cancel=deployment.cancel,
    )


def _upgrade(
    app: AppSettings, broker: Broker, layout: Layout, journal: Journal, reset: Collection[str]
) -> list[StageChange]:
    """Adapt the state to the topology, and return what has changed in each stage."""
    policies = Policies.of(app.id, app.config)
    broker_url = None if app.broker_url is None else broker.url  # it refers to secrets, but does not contain them
    catalog = {**catalog_of(layout), "dead_letter_topic": policies.dead_letter_topic, "broker": broker_url}
    changes = upgrade(journal, state_dir(app.data_dir, app.id), catalog, reset)
    for change in [] if is_unchanged(changes) else changes:
        log_event(_log, logging.WARNING, "topology changed", {"app": app.id, "stage": str(change)})
    return changes
