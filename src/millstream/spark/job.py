"""Run one batch as one Spark job, in single or in parallel mode.

In single mode one Spark task runs all tasks in order; this is for small batches. In parallel mode there is one Spark
task per core, which runs its part of each level and exchanges shuffle data through files. If not all of these can run
at the same time, since other jobs use the slots, there is one Spark task per core and level instead, with a Spark
shuffle between levels. The results are the same.
"""

from __future__ import annotations

import functools
import tempfile
import time
from collections.abc import Mapping
from typing import Any

from pyspark import RDD, SparkContext

from millstream.batch.batch import Batch
from millstream.spark.failures import translated
from millstream.spark.header import AppHeader, JobHeader, encode_header
from millstream.spark.level_jobs import LevelJobs
from millstream.spark.worker import NOT_STARTED, Item, results, run_all_levels, run_single
from millstream.state.task import StateVersion
from millstream.task.report import TaskReport

_PATIENCE_SECONDS = 15.0  # for a task that has not started: its worker may have to be started first
_SHUFFLE_SECONDS = 60.0
_FOREVER = float("inf")


class BatchJob:
    """Runs batches of one app on a Spark context."""

    def __init__(self, context: SparkContext, header: AppHeader, small_batch: int) -> None:
        self._context = context
        self._header = header
        self._small_batch = small_batch
        # a range becomes an RDD without data: Spark does not reuse a worker that leaves data unread
        self._single: RDD[int] = context.parallelize(range(1), 1)
        self._wide: RDD[int] = context.parallelize(range(header.width), header.width)
        self._level_jobs = LevelJobs(context, header.slots)
        self._shuffle_until = 0.0 if len(header.slots) > 1 else _FOREVER

    def __call__(self, batch: Batch, versions: Mapping[str, StateVersion]) -> list[TaskReport]:
        """Run a batch and return the reports of its tasks."""
        header = encode_header(JobHeader(app=self._header, batch=batch, versions=dict(versions)))
        with translated():
            if batch.records <= self._small_batch:
                items = self._single_task(header).collect()
            else:
                items = self._run_with_files(header) or self._level_jobs.run(header)
        return results(items)

    def _run_with_files(self, header: bytes) -> list[Item] | None:
        """Run all tasks at the same time; None if that is not possible, then it is not tried again for a minute."""
        if time.monotonic() < self._shuffle_until or not self._has_free_slots():
            return None
        with tempfile.TemporaryDirectory(prefix="millstream-", ignore_cleanup_errors=True) as directory:
            run: Any = functools.partial(run_all_levels, header, directory, _PATIENCE_SECONDS)
            items: list[Item] = self._wide.mapPartitionsWithIndex(run).collect()
        if all(number != NOT_STARTED for number, _ in items):
            return items
        self._shuffle_until = time.monotonic() + _SHUFFLE_SECONDS
        return None

    def _has_free_slots(self) -> bool:
        """Whether there are slots for all tasks now; another job may take them before they start."""
        tracker = self._context.statusTracker()
        stages = map(tracker.getStageInfo, tracker.getActiveStageIds())
        taken = sum(stage.numActiveTasks for stage in stages if stage is not None)
        return taken + self._header.width <= self._context.defaultParallelism

    def _single_task(self, header: bytes) -> RDD[Item]:
        return self._single.mapPartitions(functools.partial(run_single, header))
