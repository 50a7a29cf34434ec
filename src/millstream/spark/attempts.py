"""One attempt to run an app: the loop and all that it needs from Spark, made anew after each failure."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from pyspark import cloudpickle

from millstream.batch.activity import Activity
from millstream.batch.execute import task_names
from millstream.batch.idle import IdleInputs
from millstream.batch.journal import Journal
from millstream.batch.lease import Lease
from millstream.batch.loop import BatchLoop
from millstream.batch.pace import Pace
from millstream.batch.planner import BatchSize, Planner
from millstream.batch.report import BatchReport
from millstream.batch.timers import timed_tasks
from millstream.batch.topics import SourceTopics
from millstream.broker import Broker, TopicConfig
from millstream.durations import milliseconds
from millstream.errors import DefinitionError
from millstream.foundation.loading import AppReference, reference_to
from millstream.foundation.paths import journal_dir, state_dir
from millstream.plan.describe import fingerprint
from millstream.plan.layout import Layout
from millstream.spark.engine import Engine
from millstream.spark.failures import translated
from millstream.spark.header import AppHeader
from millstream.spark.job import BatchJob
from millstream.spark.resident import ResidentTask
from millstream.spark.spread import SpreadJob, executor_state_dir, is_spread
from millstream.task.policy import Policies

if TYPE_CHECKING:
    from millstream.app import App


@dataclass(frozen=True)
class Attempts:
    """What all attempts of a run share."""

    app: App
    engine: Engine
    broker: Broker
    layout: Layout
    journal: Journal
    lease: Lease
    pace: Pace
    on_batch: Callable[[BatchReport], None] | None
    stopping: threading.Event
    activity: Activity

    def __post_init__(self) -> None:
        config = self.app.config
        if self.pace.trigger == "realtime" and not min(config.small_batch_records, config.max_batch_records):
            raise DefinitionError(
                'trigger="realtime" needs small batches, but small_batch_records is 0', hint="leave that setting out"
            )
        if is_spread(config) and self.pace.trigger == "realtime":
            raise DefinitionError(
                'trigger="realtime" runs on one host, but master is ' + repr(config.master),
                hint="leave one of them out",
            )
        _ = self.topology  # what cannot be sent is found here, before anything runs

    @cached_property
    def topology(self) -> tuple[AppReference | None, bytes]:
        """How workers come to the topology: where they import it, or else the whole of it."""
        reference = reference_to(self.app)
        return reference, b"" if reference is not None else _pickled(self.app, self.layout)

    def loop(self) -> BatchLoop:
        """Make the loop of the next attempt, with a Spark that lives."""
        with translated():
            return self._loop()

    def _loop(self) -> BatchLoop:
        config = self.app.config
        context = self.engine.context()
        header = self._header(context.defaultParallelism)
        size = BatchSize(config.max_batch_records, milliseconds(config.target_batch) / 1000)
        small = min(config.small_batch_records, config.max_batch_records)
        resident = ResidentTask(
            context,
            header,
            self.lease,
            journal_dir(self.app.data_dir, self.app.id),
            most=small,
            trigger=self.pace.trigger,
        )
        topics = SourceTopics(self.layout, self.broker, dead_letters=header.policies.dead_letter_topic)
        return BatchLoop(
            app=self.app.id,
            broker=self.broker,
            journal=self.journal,
            planner=Planner(
                self.broker,
                topics,
                size,
                timed=timed_tasks(self.layout),
                whole=self.layout.plan.global_tables,
                idle=IdleInputs(self.layout),
            ),
            size=size,
            task_names=task_names(self.layout),
            execute=SpreadJob(context, header, self.layout)
            if is_spread(config)
            else BatchJob(context, header, config.small_batch_records),
            on_batch=self.on_batch,
            stopping=self.stopping,
            activity=self.activity,
            every_seconds=self.pace.every_seconds,
            resident=resident if small and not self.pace.every_seconds and not is_spread(config) else None,
        )

    def _header(self, cores: int) -> AppHeader:
        app, layout = self.app, self.layout
        reference, pickled = self.topology
        tasks_by_level = [len(layout.tasks_on(level)) for level in range(layout.plan.levels)]
        config, lineage = app.config, self.journal.lineage()
        here = str(state_dir(app.data_dir, app.id))
        return AppHeader(
            app=app.id,
            lineage=lineage,
            reference=reference,
            pickled=pickled,
            fingerprint=fingerprint(layout.plan),
            partitions=layout.partitions,
            widths=tuple(min(count, max(1, cores)) for count in tasks_by_level),
            broker=self.broker.url,
            state_dir=executor_state_dir(app.id, lineage) if is_spread(config) else here,
            policies=Policies.of(app.id, config),
            caching=config.caching,
            durable=config.durability == "sync",
            new_topic=TopicConfig(partitions=config.partitions) if config.create_topics else None,
            checkpoint=config.checkpoint,
            snapshot_every=config.snapshot_every,
        )


def _pickled(app: App, layout: Layout) -> bytes:
    """Pickle the topology of an app that is not a variable of a module."""
    try:
        return bytes(cloudpickle.dumps(layout.plan))  # type: ignore[no-untyped-call]
    except Exception as error:
        raise DefinitionError(
            f"the topology of {app.id!r} cannot be sent to Spark's workers: {error}",
            hint="make the app a variable of a module or file, so that workers can import it",
        ) from error
