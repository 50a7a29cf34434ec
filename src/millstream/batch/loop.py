"""The loop of an app: plan a batch, make the plan durable, run it, note that it is done; then the next."""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeVar

from millstream.batch.activity import Activity
from millstream.batch.batch import Batch, Progress, advanced, check_ran, offsets_of
from millstream.batch.gate import Gate
from millstream.batch.journal import Journal
from millstream.batch.logs import log_batch
from millstream.batch.planner import Planner
from millstream.batch.report import BatchReport, Phases, lag_of
from millstream.errors import EngineError, MillstreamError, PartitionsAddedError
from millstream.records import TopicPartition
from millstream.state.task import StateVersion
from millstream.task.report import TaskReport
from millstream.task.task_input import Range

T = TypeVar("T")
Until = Literal["stopped", "caught-up"]
_NAP_SECONDS = 0.25  # how long a wait for records lasts before the loop looks whether it is to stop
_MOMENT_SECONDS = 0.005
_COMMIT_SECONDS = 1.0
_FIRST_PAUSE_SECONDS = 0.2
_LONGEST_PAUSE_SECONDS = 10.0
_MOST_ATTEMPTS = 8
_DRIVER_SECONDS = 2.0  # after a resident task died, batches run as jobs of their own for so long


class Execute(Protocol):
    """Runs the tasks of a batch somewhere."""

    def __call__(self, plan: Batch, versions: Mapping[str, StateVersion], /) -> list[TaskReport]: ...


class Resident(Protocol):
    """A place where small batches run for a while by a loop of their own, which costs them less."""

    def suits(self, plan: Batch | None, until: Until, /) -> bool:
        """Whether the next batch, or the wait for one, should happen there."""

    def __call__(self, until: Until, on_batch: Callable[[BatchReport], None], stopping: threading.Event, /) -> None:
        """Run batches there until that is not the right place any more; the journal says how far they came."""


@dataclass(frozen=True, kw_only=True)
class LoopOptions:
    """What a loop can do without."""

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


class BatchLoop:
    """Runs batches until it is told to stop or, with ``until="caught-up"``, until there is nothing left to read."""

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
        self._may_idle = True  # timers alone are a reason for a batch; until an app has caught up, for the first only
        self._activity = options.activity
        self._gate = Gate(journal.path.parent)
        self._next_batch = 0.0
        self._next_commit = 0.0
        self._plan_seconds = 0.0
        self._progress, self._planned = journal.read()

    def stop(self) -> None:
        """Finish the batch at hand and stop."""
        self._stopping.set()

    def run(self, until: Until = "stopped") -> None:
        """Run batches; a batch that was planned before a crash comes first."""
        try:
            self._run(until)
        finally:
            with contextlib.suppress(MillstreamError):  # what ended the run says more
                self._commit(self._progress)

    def _run(self, until: Until) -> None:
        plan = self._planned
        while not self._ends():
            if plan is None:
                if until == "stopped":
                    self._pause()
                plan = None if self._ends() else self._retrying(self._plan_durably)
                if plan is None and self._planner.unread_partitions and not self._ends():
                    raise self._partitions_added()
            self._may_idle = until == "stopped"
            if self._may_reside(plan, until):
                plan = self._reside(until)
            elif plan is not None:
                with self._gate.passing():
                    plan = self._run_batch(plan)
            elif until == "caught-up":
                return
            else:
                self._retrying(self._wait)

    def _ends(self) -> bool:
        return self._stopping.is_set() or self._is_over()

    def _may_reside(self, plan: Batch | None, until: Until) -> bool:
        if self._resident is None or self._ends() or time.monotonic() < self._driver_until:
            return False
        return self._resident.suits(plan, until)

    def _reside(self, until: Until) -> Batch | None:
        """Let batches run elsewhere; what was planned there and is not done comes back as the next batch."""
        assert self._resident is not None
        self._activity.turn_to("runs small batches in a task that stays", "working")
        try:
            self._resident(until, self._tell, self._stopping)
        except MillstreamError as error:
            if not error.retryable:
                raise
            self._driver_until = time.monotonic() + _DRIVER_SECONDS
        finally:
            self._progress, self._planned = self._journal.read()
        return self._planned

    def _plan_durably(self) -> Batch | None:
        began = time.perf_counter()
        self._activity.turn_to("plans a batch")
        backlog = self._planner.backlog(self._progress)
        if self._planner.unread_partitions:
            return None
        plan = self._planner.choose(self._progress, backlog, idle=self._may_idle)
        if plan is not None:
            self._journal.write(self._progress, plan)
        self._plan_seconds = time.perf_counter() - began
        return plan

    def _run_batch(self, plan: Batch) -> Batch | None:
        """Run a batch; each step is retried by itself, since a batch that is noted as done must not run again."""
        began = time.perf_counter()
        self._activity.turn_to(f"runs batch {plan.number}", "working")
        reports = self._retrying(lambda: self._execute(plan, self._progress.versions))
        ran = time.perf_counter()
        check_ran(plan, self._names, reports)
        progress = advanced(self._progress, plan, self._names, reports)
        self._planner.adapt(plan.records, ran - began)
        if time.monotonic() >= self._next_commit:
            self._retrying(lambda: self._commit(progress))
        noted = time.perf_counter()
        backlog = self._backlog(progress)
        is_pausing, idle = self._is_pausing(backlog), self._may_idle
        following = None if is_pausing else self._retrying(lambda: self._planner.choose(progress, backlog, idle=idle))
        publish = max((task.publish_seconds for task in reports), default=0.0)
        report = BatchReport(
            plan=plan,
            tasks=reports,
            seconds=self._plan_seconds + noted - began,
            ended_at=time.time_ns() // 1_000_000,
            phases=Phases(plan=self._plan_seconds, run=ran - began - publish, publish=publish, done=noted - ran),
            lag=lag_of(backlog),
        )
        self._retrying(lambda: self._journal.write(progress, following, report))
        self._progress, self._planned = progress, following
        self._plan_seconds = time.perf_counter() - noted
        self._tell(report)
        return following

    def _is_pausing(self, backlog: list[Range]) -> bool:
        """Whether the batch after this one is planned later, by somebody else or when its time has come."""
        waits = time.monotonic() < self._next_batch and not self._planner.is_too_much(backlog)
        return self._ends() or waits or bool(self._planner.unread_partitions)

    def _partitions_added(self) -> PartitionsAddedError:
        topic, (read, there) = next(iter(self._planner.unread_partitions.items()))
        return PartitionsAddedError(
            f"topic {topic!r} has {there} partitions, but the app started when it had {read}",
            hint="start the app again; none of the records in the new partitions was skipped",
            topic=topic,
            partitions=there,
        )

    def _pause(self) -> None:
        """With a fixed interval, wait for its end, unless a batch took longer than that."""
        if self._every:
            self._activity.turn_to("waits until the next batch is due", "idle")
            self._stopping.wait(self._next_batch - time.monotonic())
            self._next_batch = time.monotonic() + self._every

    def _tell(self, report: BatchReport) -> None:
        log_batch(self._app, report)
        self._activity.go_on()
        if self._on_batch is not None:
            self._on_batch(report)

    def _commit(self, progress: Progress) -> None:
        """Tell the broker how far the app is: for people and their tools, since the journal is what counts."""
        self._broker.commit(self._app, offsets_of(progress))
        self._next_commit = time.monotonic() + _COMMIT_SECONDS

    def _backlog(self, progress: Progress) -> list[Range]:
        """Return what is left to read; while stopping it is told only, so that nothing is risked for it."""
        if not self._stopping.is_set():
            return self._retrying(lambda: self._planner.backlog(progress))
        try:
            return self._planner.backlog(progress)
        except MillstreamError:
            return []

    def _wait(self) -> None:
        positions: dict[TopicPartition, int] = self._planner.positions(self._progress)
        topics = ", ".join(sorted({at.topic for at in positions}))
        self._activity.turn_to(f"waits for records of {topics}", "idle")
        if self._on_idle is not None:
            if self._broker.wait(positions, min(_MOMENT_SECONDS, self._planner.seconds_to_timer(self._progress))):
                return
            self._on_idle()
        while not self._ends() and not self._planner.has_other_topics(positions):
            pause = min(_NAP_SECONDS, self._planner.seconds_to_timer(self._progress))
            if self._broker.wait(positions, pause) or self._planner.seconds_to_timer(self._progress) == 0:
                return

    def _retrying(self, step: Callable[[], T]) -> T:
        """Run a step of the loop, again after a growing pause if the error says that waiting can help."""
        for attempt in range(1, _MOST_ATTEMPTS + 1):
            try:
                return step()
            except MillstreamError as error:
                if not error.retryable or attempt == _MOST_ATTEMPTS or self._stopping.is_set():
                    raise
                if isinstance(error, EngineError):
                    raise  # Spark may have to be started anew, which is not for the loop to do
                self._activity.turn_to(f"waits to try again, since {error.message}")
                pause = min(_LONGEST_PAUSE_SECONDS, _FIRST_PAUSE_SECONDS * 2**attempt)
                self._stopping.wait(pause * random.uniform(0.5, 1.0))
        raise AssertionError("unreachable")
