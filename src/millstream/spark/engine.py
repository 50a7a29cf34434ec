"""Spark as the engine of one app: it starts Spark, and makes what runs the app's batches on it."""

from __future__ import annotations

import contextlib
import uuid
from functools import cached_property

import msgspec
from pyspark import cloudpickle

from millstream.batch.app_spec import AppSpec
from millstream.batch.assembly import Assembly, Executors
from millstream.batch.lease import Lease
from millstream.batch.pace import Pace
from millstream.errors import DefinitionError
from millstream.foundation.paths import journal_dir
from millstream.plan.describe import fingerprint
from millstream.spark.failures import translated
from millstream.spark.header import AppHeader
from millstream.spark.job import BatchJob
from millstream.spark.resident import ResidentTask
from millstream.spark.session import spark_context
from millstream.spark.spread import SpreadJob, executor_state_dir, is_spread


class SparkEngine:
    """Runs the batches of one app on the Spark of this process, which other apps may share.

    The jobs of each app belong to a group of their own, by which they can be found and cancelled.
    """

    def __init__(self, spec: AppSpec, assembly: Assembly, lease: Lease, pace: Pace) -> None:
        """Start Spark; a topology that cannot be sent to workers is refused here, before anything runs."""
        self._spec = spec
        self._assembly = assembly
        self._lease = lease
        self._pace = pace
        self._group = f"millstream.{spec.id}.{uuid.uuid4().hex[:8]}"
        self._context = spark_context(spec.config.master, spec.config.spark)
        self._small = min(spec.config.small_batch_records, spec.config.max_batch_records)
        self._is_spread = is_spread(spec.config)
        if pace.trigger == "realtime" and not self._small:
            raise DefinitionError(
                'trigger="realtime" needs small batches, but small_batch_records is 0', hint="leave that setting out"
            )
        if self._is_spread and pace.trigger == "realtime":
            raise DefinitionError(
                'trigger="realtime" runs on one host, but master is ' + repr(spec.config.master),
                hint="leave one of them out",
            )
        _ = self._pickled_plan

    def connect(self) -> Executors:
        """Return what runs batches on a Spark that is alive; jobs of the calling thread belong to the app from now."""
        with translated():
            self._context = spark_context(self._spec.config.master, self._spec.config.spark)
            self._context.setJobGroup(self._group, "batches", interruptOnCancel=True)
            header = self._header()
            if self._is_spread:
                return Executors(SpreadJob(self._context, header, self._assembly.layout))
            job = BatchJob(self._context, header, self._spec.config.small_batch_records)
            return Executors(job, self._resident(header))

    def _resident(self, header: AppHeader) -> ResidentTask | None:
        if not self._small or self._pace.every_seconds:
            return None
        return ResidentTask(
            self._context,
            header,
            self._lease,
            journal_dir(self._spec.data_dir, self._spec.id),
            most=self._small,
            trigger=self._pace.trigger,
        )

    def _header(self) -> AppHeader:
        layout, tasks = self._assembly.layout, self._assembly.settings
        if self._is_spread:
            tasks = msgspec.structs.replace(tasks, state_dir=executor_state_dir(tasks.app, tasks.lineage))
        tasks_by_level = [len(layout.tasks_on(level)) for level in range(layout.plan.levels)]
        cores = max(1, self._context.defaultParallelism)
        return AppHeader(
            tasks=tasks,
            reference=self._spec.reference,
            pickled=self._pickled_plan,
            fingerprint=fingerprint(layout.plan),
            partitions=layout.partitions,
            widths=tuple(min(count, cores) for count in tasks_by_level),
            broker=self._assembly.broker.url,
        )

    @cached_property
    def _pickled_plan(self) -> bytes:
        """The plan of an app that workers cannot import, else nothing."""
        if self._spec.reference is not None:
            return b""
        try:
            return bytes(cloudpickle.dumps(self._spec.plan))  # type: ignore[no-untyped-call]
        except Exception as error:
            raise DefinitionError(
                f"the topology of {self._spec.id!r} cannot be sent to Spark's workers: {error}",
                hint="make the app a variable of a module or file, so that workers can import it",
            ) from error

    def cancel(self) -> None:
        """End all jobs of the app and the workers that run them."""
        with contextlib.suppress(Exception):  # a Spark that has died has no jobs
            self._context.cancelJobGroup(self._group)

    def doing(self) -> str:
        """Say what Spark is working on for the app."""
        try:
            tracker = self._context.statusTracker()
            jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(self._group)]
            running = [job for job in jobs if job is not None and job.status == "RUNNING"]
            stages = [tracker.getStageInfo(stage) for job in running for stage in job.stageIds]
        except Exception:
            return "Spark does not answer"
        active = [stage for stage in stages if stage is not None and stage.numActiveTasks]
        told = ", ".join(f"{one.numActiveTasks} of {one.numTasks} tasks of Spark stage {one.stageId}" for one in active)
        return f"Spark runs {told}" if told else "Spark runs nothing"
