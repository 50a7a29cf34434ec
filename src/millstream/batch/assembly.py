"""Assemble what runs the batches of an app: the task environment, the planner and the batch loop.

Spark's driver and workers, the resident task, the test driver and the tests all build these parts here, so that they
agree on what the app reads, when its timers are due and how its tasks run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol, TypeVar

import msgspec

from millstream.batch.app_spec import AppSettings
from millstream.batch.execute import task_names
from millstream.batch.idle import IdleInputs
from millstream.batch.journal import Journal
from millstream.batch.loop import BatchLoop, Execute, LoopOptions, Resident
from millstream.batch.pausing import PausedInputs
from millstream.batch.planner import BatchSize, Planner, wall_clock
from millstream.batch.small_planner import SmallPlanner
from millstream.batch.timers import timed_tasks
from millstream.batch.topics import REFRESH_SECONDS, SourceTopics
from millstream.broker import Broker, TopicConfig
from millstream.config import Config
from millstream.durations import milliseconds
from millstream.foundation.paths import state_dir
from millstream.plan.layout import Layout
from millstream.state.checkpoint import Checkpoint
from millstream.task.changelog import ChangelogTopic, OnTaskRestore, ignore_restore
from millstream.task.environment import TaskEnvironment
from millstream.task.policy import Policies
from millstream.task.sampling import sampling_of
from millstream.task.task_changelog import TaskChangelogs

P = TypeVar("P", bound=Planner)


class TaskSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How the tasks of an app run, as data that can be sent to workers."""

    app: str
    state_dir: str
    policies: Policies
    lineage: str = ""
    caching: bool = True
    durable: bool = True
    new_topic: TopicConfig | None = None
    checkpoint: str | None = None
    snapshot_every: int = 100
    at_least_once: bool = False
    changelogs: dict[str, ChangelogTopic] | None = None
    """The changelog topics by stage; None: the app has none."""
    generation: int = 0
    """Grows with every run, and with every attempt of a run after a failure."""

    @classmethod
    def of(
        cls, app: AppSettings, lineage: str = "", changelogs: dict[str, ChangelogTopic] | None = None
    ) -> TaskSettings:
        """Return the settings of an app's tasks on this host."""
        config = app.config
        return cls(
            app=app.id,
            state_dir=str(state_dir(app.data_dir, app.id)),
            policies=Policies.of(app.id, config),
            lineage=lineage,
            caching=config.caching,
            durable=app.is_durable,
            new_topic=TopicConfig(partitions=config.partitions) if config.create_topics else None,
            checkpoint=config.checkpoint,
            snapshot_every=config.snapshot_every,
            at_least_once=config.guarantee == "at_least_once",
            changelogs=changelogs,
        )


@dataclass(frozen=True)
class Executors:
    """What runs batches on an engine; ``resident`` is None if the driver runs all of them as jobs."""

    execute: Execute
    resident: Resident | None = None


class Engine(Protocol):
    """Where the batches of an app run."""

    def connect(self) -> Executors:
        """Return what runs batches; starts the engine if it is not running."""


@dataclass(frozen=True)
class Assembly:
    """An app that is laid out over the topics of a broker."""

    settings: TaskSettings
    layout: Layout
    broker: Broker

    def environment(self, on_restore: OnTaskRestore = ignore_restore) -> TaskEnvironment:
        """Return a task environment for this process; ``on_restore`` is called while a task restores its state."""
        settings = self.settings
        checkpoint = changelogs = None
        if settings.checkpoint is not None:
            checkpoint = Checkpoint(
                settings.checkpoint, settings.app, settings.lineage, snapshot_every=settings.snapshot_every
            )
        if settings.changelogs is not None:
            changelogs = TaskChangelogs(
                self.broker, settings.app, settings.changelogs, settings.generation, checkpoint, on_restore
            )
        return TaskEnvironment(
            app=settings.app,
            layout=self.layout,
            broker=self.broker,
            state_dir=Path(settings.state_dir),
            policies=settings.policies,
            lineage=settings.lineage,
            caching=settings.caching,
            durable=settings.durable,
            new_topic=settings.new_topic,
            checkpoint=checkpoint,
            changelogs=changelogs,
            at_least_once=settings.at_least_once,
            on_restore=on_restore,
            sampling=sampling_of(settings.state_dir),
        )

    def planner(
        self,
        size: BatchSize,
        *,
        clock: Callable[[], int] = wall_clock,
        refresh_seconds: float = REFRESH_SECONDS,
        stops: Callable[[], Mapping[str, int]] | None = None,
    ) -> Planner:
        """Return a planner over everything that the app reads, up to ``stops`` if these are given."""
        return self._planner(Planner, size, clock, refresh_seconds, stops)

    def small_planner(self, max_records: int) -> SmallPlanner:
        """Return a planner for backlogs of up to ``max_records``; it plans nothing if more are waiting."""
        return self._planner(SmallPlanner, BatchSize(max_records, 1.0), wall_clock, REFRESH_SECONDS)

    def _planner(
        self,
        kind: type[P],
        size: BatchSize,
        clock: Callable[[], int],
        refresh_seconds: float,
        stops: Callable[[], Mapping[str, int]] | None = None,
    ) -> P:
        dead_letters = self.settings.policies.dead_letter_topic
        paused = PausedInputs(self.layout, Path(self.settings.state_dir))
        return kind(
            self.broker,
            SourceTopics(
                self.layout,
                self.broker,
                dead_letters=dead_letters,
                app=self.settings.app,
                refresh_seconds=refresh_seconds,
                paused=paused,
            ),
            size,
            paused=paused,
            timed=timed_tasks(self.layout),
            global_topics=self.layout.plan.global_tables,
            idle=IdleInputs(self.layout),
            clock=clock,
            partitions_read=self.layout.partitions_read,
            stops=stops,
        )

    def loop(
        self, journal: Journal, planner: Planner, execute: Execute, options: LoopOptions | None = None
    ) -> BatchLoop:
        """Return a loop that plans batches with ``planner`` and runs them with ``execute``."""
        return BatchLoop(self.settings.app, journal, planner, execute, task_names(self.layout), options)

    def engine_loop(self, journal: Journal, config: Config, engine: Engine, options: LoopOptions) -> BatchLoop:
        """Return a loop on an engine, which is started if it is not running."""
        executors = engine.connect()
        loop_options = replace(options, resident=executors.resident)
        return self.loop(journal, self.planner(batch_size(config)), executors.execute, loop_options)


def topic_loop(
    name: str,
    topics: Sequence[str],
    broker: Broker,
    journal: Journal,
    config: Config,
    execute: Execute,
    options: LoopOptions | None = None,
    clock: Callable[[], int] = wall_clock,
) -> BatchLoop:
    """Return a loop over topics; it has no tasks, ``execute`` handles the records itself."""
    planner = Planner(broker, topics, batch_size(config), clock=clock)
    return BatchLoop(name, journal, planner, execute, task_names=[], options=options)


def batch_size(config: Config) -> BatchSize:
    """Return the initial batch size of an app, with the bounds from its config."""
    return BatchSize(config.max_batch_records, milliseconds(config.target_batch) / 1000)
