"""A running app: its lock, its loop in a thread, and how it is stopped."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from pyspark import SparkContext

from millstream.admin.upgrade import upgrade
from millstream.batch.activity import Activity, LifeSigns
from millstream.batch.journal import Journal
from millstream.batch.lease import Lease
from millstream.batch.logs import event
from millstream.batch.loop import Until
from millstream.batch.pace import Pace
from millstream.batch.report import BatchReport
from millstream.batch.supervisor import Supervisor
from millstream.batch.topics import matching_topics
from millstream.batch.watchdog import Watchdog
from millstream.broker import Broker, TopicConfig
from millstream.durations import milliseconds
from millstream.errors import AlreadyRunningError, DefinitionError, UnknownTopicError
from millstream.foundation.paths import activity_file, journal_dir, lease_file, lock_file, state_dir
from millstream.foundation.storage import FileLock, make_private_directory, translate_storage_errors
from millstream.metrics.prometheus import MetricsServer
from millstream.plan.changes import StageChange, is_unchanged
from millstream.plan.layout import Layout
from millstream.spark.attempts import Attempts
from millstream.spark.deliveries import Deliveries
from millstream.spark.engine import Engine
from millstream.tables.opening import catalog_of
from millstream.task.policy import Policies

if TYPE_CHECKING:
    from millstream.app import App

_log = logging.getLogger(__name__)


class SparkRun:
    """One run of an app, from the lock to the drain."""

    def __init__(
        self,
        held: ExitStack,
        supervisor: Supervisor,
        stopping: threading.Event,
        deliveries: Deliveries,
        until: Until,
        changes: list[StageChange],
        metrics_url: str | None,
    ) -> None:
        self.changes = changes
        """What became of each stage since the last start; empty at the first one."""
        self.metrics_url = metrics_url
        """Where the run's figures are served, if they are."""
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
        app: App,
        until: Until,
        on_batch: Callable[[BatchReport], None] | None,
        pace: Pace | None = None,
        reset: Collection[str] = (),
    ) -> SparkRun:
        """Take the app's lock, lay out its tasks, start Spark and the loop."""
        with translate_storage_errors(app.data_dir):
            make_private_directory(app.data_dir)
        with ExitStack() as held:
            held.callback(_locked(app).release)
            lease = Lease(app.id, lease_file(app.data_dir, app.id))
            lease.take()
            held.callback(lease.give_back)
            broker = app.broker
            held.callback(broker.close)
            layout = _layout(app, broker)
            config = app.config
            journal = Journal(journal_dir(app.data_dir, app.id), durable=config.durability == "sync")
            changes = _upgrade(app, broker, layout, journal, reset)
            stopping, activity = threading.Event(), Activity()
            engine = Engine(app.id, config)
            attempts = Attempts(
                app, engine, broker, layout, journal, lease, pace or Pace(), on_batch, stopping, activity
            )
            supervisor = Supervisor(app.id, journal, attempts.loop, stopping=stopping, activity=activity)
            deliveries = Deliveries(app, broker)
            held.callback(_watchdog(app, engine, activity).close)
            metrics = None if config.metrics_port is None else MetricsServer(app.data_dir, config.metrics_port)
            if metrics is not None:
                held.callback(metrics.close)
            url = None if metrics is None else metrics.url
            return cls(held.pop_all(), supervisor, stopping, deliveries, until, changes, url)

    def _work(self, until: Until) -> None:
        try:
            with self._deliveries.beside(until, self._stopping.set):
                self._supervisor.run(until)
        except BaseException as error:
            self._error = error
        finally:
            self._held.close()

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def stop(self) -> None:
        """Ask the run to finish its batch and to end; does not wait."""
        self._stopping.set()

    def wait(self, timeout: float | None = None, *, handle_signals: bool = False) -> bool:
        """Wait for the end and raise the error that caused it, if any; False if the run still goes on."""
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
        """Make the first Ctrl-C or SIGTERM drain; the second one of Ctrl-C interrupts."""

        def drain(*_: Any) -> None:
            self.stop()
            signal.signal(signal.SIGINT, signal.default_int_handler)

        before = {number: signal.signal(number, drain) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def stop_spark() -> None:
    """Stop this process's Spark, if it runs."""
    context = SparkContext._active_spark_context
    if context is not None:
        context.stop()


def _locked(app: App) -> FileLock:
    lock = FileLock(lock_file(app.data_dir, app.id))
    if not lock.acquire(timeout=0.1):
        raise AlreadyRunningError(
            f"app {app.id!r} is already running on {str(app.data_dir)!r} (process {lock.holder()})",
            hint="stop that run first, or give this one another id or data_dir",
            process=lock.holder(),
        )
    return lock


def _watchdog(app: App, engine: Engine, activity: Activity) -> Watchdog:
    limit = app.config.stuck_after
    return Watchdog(
        app.id,
        activity,
        LifeSigns(activity_file(app.data_dir, app.id)),
        stuck_after=None if limit is None else milliseconds(limit) / 1000,
        detail=engine.doing,
        abandon=engine.cancel,
    )


def _upgrade(app: App, broker: Broker, layout: Layout, journal: Journal, reset: Collection[str]) -> list[StageChange]:
    """Bring the state in line with the topology, and say what that does to it."""
    policies = Policies.of(app.id, app.config)
    elsewhere = None if app.broker_url is None else broker.url  # which has the places of secrets, not the secrets
    catalog = {**catalog_of(layout), "dead_letter_topic": policies.dead_letter_topic, "broker": elsewhere}
    changes = upgrade(journal, state_dir(app.data_dir, app.id), catalog, reset)
    for change in [] if is_unchanged(changes) else changes:
        event(_log, logging.WARNING, "topology changed", {"app": app.id, "stage": str(change)})
    return changes


def _layout(app: App, broker: Broker) -> Layout:
    """Create missing topics if that is allowed, and lay the plan out over what is there."""
    plan = app.plan
    topics: dict[str, int] = {}
    stamped = plan.stamped_topics
    written = (f"{app.config.output_prefix}{topic}" for topic in plan.sink_topics)
    for topic in dict.fromkeys((*plan.source_topics, *written)):
        try:
            found = broker.topic(topic)
            topics[topic] = found.partitions
            if topic in stamped and found.config.timestamps != "append":
                raise DefinitionError(
                    f'topic {topic!r} keeps the times of its producers, but timestamp="append" asks for the log\'s',
                    hint="create the topic with append timestamps, or leave timestamp= out",
                    topic=topic,
                )
        except UnknownTopicError:
            if not app.config.create_topics:
                raise
            config = TopicConfig(
                partitions=app.config.partitions, timestamps="append" if topic in stamped else "create"
            )
            broker.create_topic(topic, config)
            topics[topic] = app.config.partitions
    dead_letters = Policies.of(app.id, app.config).dead_letter_topic
    return Layout.of(
        plan, {**topics, **matching_topics(plan, broker, but=dead_letters)}, otherwise=app.config.partitions
    )
