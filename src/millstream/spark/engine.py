"""Spark as the engine of one app: starts Spark and runs the app's batches on it."""

from __future__ import annotations

import contextlib
import uuid
from pathlib import Path

import msgspec

from millstream.batch.activity import Activity
from millstream.batch.app_spec import AppSpec
from millstream.batch.assembly import Assembly, Executors
from millstream.batch.execute import task_names
from millstream.batch.journal import Journal
from millstream.batch.lease import Lease
from millstream.batch.trigger import Trigger
from millstream.errors import DefinitionError
from millstream.foundation.loading import search_paths
from millstream.plan.describe import fingerprint
from millstream.spark.cluster import ClusterJob, is_cluster
from millstream.spark.code import send_code
from millstream.spark.failures import translated
from millstream.spark.header import AppHeader
from millstream.spark.job import BatchJob
from millstream.spark.placement import levels_of, spread
from millstream.spark.resident import ResidentTask
from millstream.spark.sending import pickled_plan
from millstream.spark.session import spark_context


class SparkEngine:
    """Runs the batches of one app on the Spark of this process, which other apps may share.

    Each app has its own job group, by which its jobs can be found and cancelled.
    """

    def __init__(
        self,
        spec: AppSpec,
        assembly: Assembly,
        lease: Lease,
        trigger: Trigger,
        journal: Journal,
        activity: Activity,
    ) -> None:
        """Start Spark; a topology that cannot be sent to workers is refused before that."""
        self._spec = spec
        self._assembly = assembly
        self._lease = lease
        self._trigger = trigger
        self._journal = journal
        self._activity = activity
        self._attempts = 0
        self._group = f"millstream.{spec.id}.{uuid.uuid4().hex[:8]}"
        self._pickled_plan = pickled_plan(spec)
        self._context = spark_context(spec.config)
        self._small_batch = min(spec.config.small_batch_records, spec.config.max_batch_records)
        self._cluster_job: ClusterJob | None = None
        self._is_cluster = is_cluster(spec.config, has_changelogs=assembly.settings.changelogs is not None)
        if trigger.mode == "realtime" and not self._small_batch:
            raise DefinitionError(
                'trigger="realtime" needs small batches, but small_batch_records is 0', hint="leave that setting out"
            )
        if self._is_cluster and trigger.mode == "realtime":
            raise DefinitionError(
                'trigger="realtime" runs on one host, but master is ' + repr(self._context.master),
                hint="leave one of them out",
            )

    def connect(self) -> Executors:
        """Return what runs batches on a live Spark; jobs of the calling thread join the app's group."""
        with translated():
            self._context = spark_context(self._spec.config)
            self._context.setJobGroup(self._group, "batches", interruptOnCancel=True)
            header = self._header()
            if self._is_cluster:
                if self._spec.reference is not None:
                    send_code(self._context, self._spec.reference)
                self.close()
                self._cluster_job = ClusterJob(
                    self._context, header, self._assembly.layout, self._activity, self._seated_records()
                )
                return Executors(self._cluster_job)
            job = BatchJob(self._context, header, self._spec.config.small_batch_records)
            return Executors(job, self._resident(header))

    def _seated_records(self) -> int:
        """The largest batch that runs in seats: without changelogs, two attempts of a task are not kept apart."""
        has_changelogs = self._assembly.settings.changelogs is not None
        return self._small_batch if has_changelogs and not self._trigger.every_seconds else 0

    def close(self) -> None:
        """Leave the cores of a cluster to others."""
        if self._cluster_job is not None:
            self._cluster_job.close()
            self._cluster_job = None

    def _resident(self, header: AppHeader) -> ResidentTask | None:
        if not self._small_batch or self._trigger.every_seconds:
            return None
        return ResidentTask(
            self._context,
            header,
            self._lease,
            self._journal.path,
            max_records=self._small_batch,
            trigger=self._trigger.mode,
            changelog=self._journal.changelog,
        )

    def _header(self) -> AppHeader:
        layout, tasks = self._assembly.layout, self._assembly.settings
        if self._journal.changelog is not None:
            self._attempts += 1
            tasks = msgspec.structs.replace(tasks, generation=self._journal.changelog.owner.generation(self._attempts))
        if self._is_cluster:
            tasks = msgspec.structs.replace(tasks, state_dir=str(Path(tasks.app) / tasks.lineage))
        cores = max(1, self._context.defaultParallelism)
        return AppHeader(
            tasks=tasks,
            reference=self._spec.reference,
            pickled=self._pickled_plan,
            paths=search_paths() if self._pickled_plan else (),
            part=self._spec.part,
            fingerprint=fingerprint(layout.plan),
            partitions=layout.partitions,
            slots=spread(levels_of(layout, task_names(layout)), cores),
            broker=self._assembly.broker.url,
        )

    def cancel(self) -> None:
        """End all jobs of the app and the workers that run them."""
        with contextlib.suppress(Exception):  # if Spark has died, there are no jobs
            self._context.cancelJobGroup(self._group)

    def describe_jobs(self) -> str:
        """Describe what Spark is running for the app."""
        try:
            tracker = self._context.statusTracker()
            jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(self._group)]
            running = [job for job in jobs if job is not None and job.status == "RUNNING"]
            stages = [tracker.getStageInfo(stage) for job in running for stage in job.stageIds]
        except Exception:
            return "Spark does not respond"
        active = [stage for stage in stages if stage is not None and stage.numActiveTasks]
        tasks = ", ".join(
            f"{stage.numActiveTasks} of {stage.numTasks} tasks of Spark stage {stage.stageId}" for stage in active
        )
        return f"Spark is running {tasks}" if tasks else "Spark is running nothing"
