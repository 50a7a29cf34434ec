"""One batch as one Spark job.

Small batches run as a single Spark task with all stages in order; larger ones as one Spark task per core, which runs
its part of each level and hands records over by files. Where these tasks cannot all run at once, since others have
their slots, there is one Spark task per core and level, with a shuffle between levels. All give the same results.
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
from millstream.spark.worker import GAVE_UP, Item, destination, results, run_level, run_levels, run_whole
from millstream.state.task import StateVersion
from millstream.task.report import TaskReport

_PATIENCE_SECONDS = 15.0  # for a task that has not begun: its worker may have to be started first
_SHUFFLE_SECONDS = 60.0
_FOREVER = float("inf")


class BatchJob:
    """Runs batches of one app on a Spark context."""

    def __init__(self, context: SparkContext, header: AppHeader, small_batch: int) -> None:
        self._context = context
        self._header = header
        self._small_batch = small_batch
        # of a range Spark makes a source without data: a worker that leaves data unread is not used again
        self._single: RDD[int] = context.parallelize(range(1), 1)
        self._base: RDD[int] = context.parallelize(range(header.widths[0]), header.widths[0])
        width = max(header.widths)
        self._wide: RDD[int] = context.parallelize(range(width), width)
        self._shuffles_until = 0.0 if len(header.widths) > 1 else _FOREVER

    def __call__(self, plan: Batch, versions: Mapping[str, StateVersion]) -> list[TaskReport]:
        """Run a batch and return the reports of its tasks."""
        header = encode_header(JobHeader(app=self._header, plan=plan, versions=dict(versions)))
        with translated():
            if plan.records <= self._small_batch:
                items = self._in_one_task(header).collect()
            else:
                items = self._at_once(header) or self._in_parallel(header).collect()
        return results(items)

    def _at_once(self, header: bytes) -> list[Item] | None:
        """Run all tasks at the same time; None if they cannot, upon which it is not tried again for a while."""
        if time.monotonic() < self._shuffles_until or not self._has_room():
            return None
        with tempfile.TemporaryDirectory(prefix="millstream-", ignore_cleanup_errors=True) as place:
            run: Any = functools.partial(run_levels, header, place, _PATIENCE_SECONDS)
            items: list[Item] = self._wide.mapPartitionsWithIndex(run).collect()
        if all(number != GAVE_UP for number, _ in items):
            return items
        self._shuffles_until = time.monotonic() + _SHUFFLE_SECONDS
        return None

    def _has_room(self) -> bool:
        """Whether there are slots for all tasks, as far as one can tell: others may take them in the next moment."""
        tracker = self._context.statusTracker()
        stages = map(tracker.getStageInfo, tracker.getActiveStageIds())
        taken = sum(stage.numActiveTasks for stage in stages if stage is not None)
        return taken + max(self._header.widths) <= self._context.defaultParallelism

    def _in_one_task(self, header: bytes) -> RDD[Item]:
        return self._single.mapPartitions(functools.partial(run_whole, header))

    def _in_parallel(self, header: bytes) -> RDD[Item]:
        first: Any = functools.partial(_run_first_level, header)
        rdd: RDD[Item] = self._base.mapPartitionsWithIndex(first)
        for level, width in enumerate(self._header.widths[1:], 1):
            moved = rdd.partitionBy(width, destination)
            # partitioning must not be preserved: Spark would take the next partitionBy for done and leave it out
            rdd = moved.mapPartitionsWithIndex(functools.partial(run_level, header, level))
        return rdd


def _run_first_level(header: bytes, index: int, _numbers: Any) -> Any:
    return run_level(header, 0, index, iter(()))
