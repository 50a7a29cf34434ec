"""One batch as one Spark job.

Small batches run as a single Spark task with all stages in order; larger ones as one Spark task per core and level,
with a shuffle between levels. Both give the same results.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from pyspark import RDD, SparkContext

from millstream.batch.plan import BatchPlan
from millstream.spark.failures import translated
from millstream.spark.header import AppHeader, JobHeader, encode_header
from millstream.spark.worker import Item, destination, results, run_level, run_whole
from millstream.state.task import Version
from millstream.task.report import TaskReport


class BatchJob:
    """Runs batches of one app on a Spark context."""

    def __init__(self, context: SparkContext, header: AppHeader, small_batch: int) -> None:
        self._header = header
        self._small_batch = small_batch
        # of a range Spark makes a source without data: a worker that leaves data unread is not used again
        self._single: RDD[int] = context.parallelize(range(1), 1)
        self._base: RDD[int] = context.parallelize(range(header.widths[0]), header.widths[0])

    def __call__(self, plan: BatchPlan, versions: Mapping[str, Version]) -> list[TaskReport]:
        """Run a batch and return the reports of its tasks."""
        header = encode_header(JobHeader(app=self._header, plan=plan, versions=dict(versions)))
        with translated():
            rdd = self._in_one_task(header) if plan.records <= self._small_batch else self._in_parallel(header)
            items = rdd.collect()
        return results(items)

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
