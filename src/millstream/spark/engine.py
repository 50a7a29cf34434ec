"""Spark as one app sees it."""

from __future__ import annotations

import contextlib
import uuid

from pyspark import SparkContext

from millstream.config import Config
from millstream.spark.session import spark_context


class Engine:
    """Spark is shared by the apps of a process; each knows its jobs by a group of their own."""

    def __init__(self, app: str, config: Config) -> None:
        self._group = f"millstream.{app}.{uuid.uuid4().hex[:8]}"
        self._config = config
        self._context = spark_context(config.master, config.spark)

    def context(self) -> SparkContext:
        """Return a Spark that lives; jobs of the calling thread belong to the app's group from then on."""
        self._context = spark_context(self._config.master, self._config.spark)
        self._context.setJobGroup(self._group, "batches", interruptOnCancel=True)
        return self._context

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
