"""The batch loop of an app: plan a batch, make it durable, run it, mark it as done, repeat."""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeVar

from millstream.batch.activity import Activity
from millstream.batch.batch import Batch, Progress, check_ran, offsets_of, progress_after
from millstream.batch.batch_lock import BatchLock
from millstream.batch.journal import Journal
from millstream.batch.logs import log_batch
from millstream.batch.planner import Planner
from millstream.batch.report import BatchReport, Phases, lag_of
from millstream.errors import (
    ConnectorError,
    EngineError,
    EngineStoppedError,
    FencedError,
    MillstreamError,
    PartitionsAddedError,
)
from millstream.records import TopicPartition
from millstream.state.task import StateVersion
from millstream.task.report import TaskReport
from millstream.task.task_input import Range

T = TypeVar("T")
Until = Literal["stopped", "caught-up"]
_WAIT_SECONDS = 0.25  # how long to wait for records before checking whether to stop
_LONG_WAIT_SECONDS = 0.5  # the same once an app has been idle for some seconds: each check costs processor time
_LONG_AFTER_SECONDS = 5.0
_IDLE_SECONDS = 0.005
_COMMIT_SECONDS = 1.0
_FIRST_PAUSE_SECONDS = 0.2
_MAX_PAUSE_SECONDS = 10.0
_MAX_ATTEMPTS = 8
_DRIVER_SECONDS = 2.0  # how long the driver runs all batches after a resident task has died


class Execute(Protocol):
    """Runs the tasks of a batch and returns their reports."""

    def __call__(self, batch: Batch, versions: Mapping[str, StateVersion], /) -> list[TaskReport]: ...


class Resident(Protocol):
    """Runs small batches in a resident task, which has its own loop and costs less per batch."""

    def accepts(self, batch: Batch | None, until: Until, /) -> bool:
        """Whether the next batch, or the wait for it, should happen in the resident task."""

    def run(
        self,
        until: Until,
        on_batch: Callable[[BatchReport], None],
        stopping: threading.Event,
        on_waiting: Callable[[], None],
        /,
    ) -> None:
        """Run batches until the resident task hands control back; the journal has their progress."""


@dataclass(frozen=True, kw_only=True)
class LoopOptions:
    """Optional parts of a loop."""

    on_batch: Callable[[BatchReport], None] | None = None
    """Called with the report of each batch."""
    every_seconds: float = 0.0
    """The interval at which batches start; 0: as soon as there are records."""
    resident: Resident | None = None
    stopping: threading.Event = field(default_factory=threading.Event)
    activity: Activity = field(default_factory=Activity)
    is_over: Callable[[], bool] = lambda: False
    """Whether the loop has to end after the current batch."""
    on_idle: Callable[[], None] | None = None
    """Called when no records have arrived for a few milliseconds."""
    on_waiting: Callable[[], None] = lambda: None
    """Called at least once a second while there are no records."""


class BatchLoop:
    """Runs batches until it is stopped or, with ``until="caught-up"``, until there is nothing left to read."""

    def __init__(
        self,
        app: str,
        journal: Journal,
        planner: Planner,
        execute: Execute,
        task_names: list[str],
        options: LoopOptions | None = None,
    ) -> None:
        options = options or LoopOptions()
        self._app = app
        self._broker = planner.broker
        self._journal = journal
        self._planner = planner
        self._names = task_names
        self._execute = execute
        self._on_batch = options.on_batch
        self._every = options.every_seconds
        self._resident = options.resident
        self._driver_until = 0.0
        self._stopping = options.stopping
        self._is_over = options.is_over
        self._on_idle = options.on_idle
        self._on_waiting = options.on_waiting
        self._may_idle = True  # whether timers alone may start a batch; while catching up only the first one
        self._activity = options.activity
        self._batch_lock = BatchLock(journal.path.parent)
        self._next_batch = 0.0
        self._next_commit = 0.0
        self._committed: Progress | None = None
        self._plan_seconds = 0.0
        self._progress, self._planned = journal.read()

    def stop(self) -> None:
        """Finish the current batch and stop."""
        self._stopping.set()

    def run(self, until: Until = "stopped") -> None:
        """Run batches, beginning with a batch that was planned before a crash."""
        try:
            self._run(until)
        except FencedError:
            raise  # the run that has taken over commits its own offsets
        except BaseException:
            with contextlib.suppress(MillstreamError):  # the error that ended the run says more
                self._commit(self._progress)
            raise
        with contextlib.suppress(MillstreamError):
            self._commit(self._progress)

    def _run(self, until: Until) -> None:
        batch = self._planned
        while not self._is_ending():
            if batch is None:
                if until == "stopped":
                    self._wait_for_interval()
                batch = None if self._is_ending() else self._retrying(self._plan_durably)
                if batch is None and self._planner.unread_partitions and not self._is_ending():
                    raise self._partitions_added()
            self._may_idle = until == "stopped"
            if self._can_run_resident(batch, until):
                batch = self._run_resident(until)
            elif batch is not None:
                with self._batch_lock.shared():
                    batch = self._run_batch(batch)
                if batch is None and until == "stopped" and self._on_idle is not None:
                    self._retrying(self._wait_briefly)
            elif until == "caught-up":
                return
            else:
                self._retrying(self._wait_for_records)

    def _is_ending(self) -> bool:
        return self._stopping.is_set() or self._is_over()

    def _can_run_resident(self, batch: Batch | None, until: Until) -> bool:
        if self._resident is None or self._is_ending() or time.monotonic() < self._driver_until:
            return False
        return self._resident.accepts(batch, until)

    def _run_resident(self, until: Until) -> Batch | None:
        """Let the resident task run batches; return the batch that it has planned and not finished, if any."""
        assert self._resident is not None
        self._activity.set("running small batches in the resident task", "working")
        try:
            self._resident.run(until, self._report, self._stopping, self._activity.restart_timer)
        except MillstreamError as error:
            if not error.retryable or isinstance(error, EngineStoppedError):
                raise
            self._driver_until = time.monotonic() + _DRIVER_SECONDS
            self._retrying(self._journal.join)
        finally:
            self._progress, self._planned = self._journal.read()
        return self._planned

    def _plan_durably(self) -> Batch | None:
        began = time.perf_counter()
        self._activity.set("planning a batch")
        backlog = self._planner.backlog(self._progress)
        if self._planner.unread_partitions:
            return None
        batch = self._planner.choose(self._progress, backlog, idle=self._may_idle)
        if batch is not None:
            self._journal.write(self._progress, batch)
        self._plan_seconds = time.perf_counter() - began
        return batch

    def _run_batch(self, batch: Batch) -> Batch | None:
        """Run a batch and return the next one.

        Each step is retried by itself, since a batch that is marked as done must not run again.
        """
        began = time.perf_counter()
        self._activity.set(f"running batch {batch.number}", "working")
        try:
            reports = self._retrying(lambda: self._execute(batch, self._progress.versions))
        except MillstreamError:
            self._journal.check_owner()  # that another run has taken over explains all other errors
            raise
        ran = time.perf_counter()
        check_ran(batch, self._names, reports)
        progress = progress_after(self._progress, batch, self._names, reports)
        self._planner.adapt(batch.records, ran - began)
        if time.monotonic() >= self._next_commit:
            self._retrying(lambda: self._commit(progress))
        committed = time.perf_counter()
        backlog = self._backlog(progress)
        plans_later, idle = self._plans_later(backlog), self._may_idle
        following = None if plans_later else self._retrying(lambda: self._planner.choose(progress, backlog, idle=idle))
        publish = max((task.publish_seconds for task in reports), default=0.0)
        report = BatchReport(
            plan=batch,
            tasks=reports,
            seconds=self._plan_seconds + committed - began,
            ended_at=time.time_ns() // 1_000_000,
            phases=Phases(plan=self._plan_seconds, run=ran - began - publish, publish=publish, done=committed - ran),
            lag=lag_of(backlog),
        )
        self._retrying(lambda: self._journal.write(progress, following, report))
        self._progress, self._planned = progress, following
        self._plan_seconds = time.perf_counter() - committed
        self._report(report)
        return following

    def _plans_later(self, backlog: list[Range]) -> bool:
        """Whether the next batch is not planned now: the loop ends, or the interval has not passed."""
        is_waiting = time.monotonic() < self._next_batch and not self._planner.is_too_large(backlog)
        return self._is_ending() or is_waiting or bool(self._planner.unread_partitions)

    def _partitions_added(self) -> PartitionsAddedError:
        topic, (tasks, partitions) = next(iter(self._planner.unread_partitions.items()))
        return PartitionsAddedError(
            f"topic {topic!r} has {partitions} partitions, but the app started when it had {tasks}",
            hint="start the app again; none of the records in the new partitions was skipped",
            topic=topic,
            partitions=partitions,
        )

    def _wait_for_interval(self) -> None:
        """With a fixed interval, wait until it has passed; not at all if the last batch took longer."""
        if self._every:
            self._activity.set("waiting until the next batch is due", "idle")
            self._stopping.wait(self._next_batch - time.monotonic())
            self._next_batch = time.monotonic() + self._every

    def _report(self, report: BatchReport) -> None:
        log_batch(self._app, report)
        self._activity.restart_timer()
        if self._on_batch is not None:
            self._on_batch(report)

    def _commit(self, progress: Progress) -> None:
        """Commit offsets to the broker, for users and their tools; recovery reads the journal only."""
        self._broker.commit(self._app, offsets_of(progress))
        self._next_commit = time.monotonic() + _COMMIT_SECONDS
        self._committed = progress

    def _backlog(self, progress: Progress) -> list[Range]:
        """Return the records left to read; while stopping they are only reported, so an error is not worth a retry."""
        if not self._stopping.is_set():
            return self._retrying(lambda: self._planner.known_backlog(progress))
        try:
            return self._planner.known_backlog(progress)
        except MillstreamError:
            return []

    def _wait_for_records(self) -> None:
        positions: dict[TopicPartition, int] = self._planner.positions(self._progress)
        topics = ", ".join(sorted({position.topic for position in positions}))
        self._activity.set(f"waiting for records from {topics}" if topics else "paused", "idle")
        if self._on_idle is not None:
            if self._wait_briefly():
                return
            self._on_idle()
        long_from = time.monotonic() + _LONG_AFTER_SECONDS
        while not self._is_ending() and not self._planner.has_other_topics(positions):
            if self._committed is not self._progress and time.monotonic() >= self._next_commit:
                self._commit(self._progress)
            self._on_waiting()
            longest = _WAIT_SECONDS if time.monotonic() < long_from else _LONG_WAIT_SECONDS
            timeout = min(longest, self._planner.seconds_to_timer(self._progress))
            if self._wait_at(positions, timeout) or self._planner.seconds_to_timer(self._progress) == 0:
                return

    def _wait_briefly(self) -> bool:
        """Wait for the records that follow a batch; most come before all offsets would have been looked up."""
        timeout = 0.0 if self._is_ending() else min(_IDLE_SECONDS, self._planner.seconds_to_timer(self._progress))
        return self._wait_at(self._planner.positions(self._progress), timeout)

    def _wait_at(self, positions: Mapping[TopicPartition, int], timeout: float) -> bool:
        """Wait for records; without positions, since all topics are paused, only for the time or the end."""
        return self._broker.wait(positions, timeout) if positions else self._stopping.wait(timeout)

    def _retrying(self, step: Callable[[], T]) -> T:
        """Run a step of the loop; after a retryable error run it again, with growing pauses."""
        for attempt in range(1, _MAX_ATTEMPTS + 1):
            try:
                return step()
            except MillstreamError as error:
                if not error.retryable or attempt == _MAX_ATTEMPTS or self._stopping.is_set():
                    raise
                if isinstance(error, EngineError | ConnectorError):
                    raise  # Spark or a connection may have to be restarted, which is up to the supervisor
                self._activity.set(f"waiting to retry after an error: {error.message}", "retrying")
                pause = min(_MAX_PAUSE_SECONDS, _FIRST_PAUSE_SECONDS * 2**attempt)
                self._stopping.wait(pause * random.uniform(0.5, 1.0))
        raise AssertionError("unreachable")
