"""Run batches on several hosts: one Spark job per level, whose tasks return to the executors where they ran last.

State is local to an executor and is replicated to the checkpoint, from which a task on another executor restores it.
The shuffle data of a level passes through the driver, since only then can each task of the next level get a preferred
location, which Spark's shuffle does not support.
"""

from __future__ import annotations

import functools
import os
import re
import socket
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import msgspec
from pyspark import RDD, SparkContext
from pyspark.serializers import NoOpSerializer

from millstream.batch.batch import Batch
from millstream.config import Config
from millstream.errors import DefinitionError
from millstream.plan.layout import Layout
from millstream.spark.failures import translated
from millstream.spark.header import AppHeader, JobHeader, encode_header
from millstream.spark.session import is_local
from millstream.spark.worker import FAILURE, REPORT, Item, results, run_level
from millstream.state.task import StateVersion
from millstream.task.report import TaskReport

_LOCATION = -(2**31)
_encode = msgspec.msgpack.Encoder().encode
_EXECUTOR_URL = re.compile(r"//([^:/]+).*[?&]executorId=([^&]+)")


def is_cluster(config: Config) -> bool:
    """Whether tasks run on executors with their own disks; that requires a checkpoint."""
    if is_local(config.master):
        return False
    if config.checkpoint is None:
        raise DefinitionError(
            f"master={config.master!r} runs tasks on several executors, but there is no checkpoint for their state",
            hint="give checkpoint= a path or URI that all hosts reach",
        )
    return True


def executor_state_dir(app: str, lineage: str) -> str:
    """Return the state directory on an executor, relative to its own working directory."""
    return str(Path("millstream-state") / app / lineage)


class ClusterJob:
    """Runs batches of one app on the executors of a cluster."""

    def __init__(self, context: SparkContext, header: AppHeader, layout: Layout) -> None:
        self._context = context
        self._header = header
        self._level_of = {task: level for level in range(layout.plan.levels) for task in layout.tasks_on(level)}
        self._locations: dict[tuple[int, int], str] = {}
        """Where the tasks of each level and slot ran last."""

    def __call__(self, batch: Batch, versions: Mapping[str, StateVersion]) -> list[TaskReport]:
        """Run a batch level by level and return the reports of its tasks."""
        header = encode_header(JobHeader(app=self._header, batch=batch, versions=dict(versions)))
        reports: list[Item] = []
        shuffled: list[Item] = []
        for level in range(len(self._header.widths)):
            items = self._run_level(header, level, [item for item in shuffled if self._level_of[item[0]] == level])
            reports += [item for item in items if item[0] == REPORT or item[0] <= FAILURE]
            if any(number <= FAILURE for number, _ in items):
                break
            shuffled += [item for item in items if item[0] >= 0]
        return results(reports)

    def _run_level(self, header: bytes, level: int, shuffled: list[Item]) -> list[Item]:
        width = self._header.widths[level]
        slots: dict[int, list[Item]] = defaultdict(list)
        for item in shuffled:
            slots[item[0] % width].append(item)
        payloads = [_encode((slot, slots[slot])) for slot in range(width)]
        locations = [self._locations.get((level, slot)) for slot in range(width)]
        with translated():
            rdd = self._located(payloads, locations)
            items = rdd.mapPartitions(functools.partial(run_slots, header, level)).collect()
        for number, data in items:
            if number == _LOCATION:
                slot, location = msgspec.msgpack.decode(data, type=tuple[int, str])
                self._locations[level, slot] = location
        return [item for item in items if item[0] != _LOCATION]

    def _located(self, payloads: list[bytes], locations: list[str | None]) -> RDD[bytes]:
        """Return an RDD with one payload per partition and its preferred location, which PySpark has no API for."""
        jvm = self._context._jvm
        assert jvm is not None
        pairs = [
            jvm.scala.Tuple2(bytearray(payload), jvm.PythonUtils.toSeq([] if location is None else [location]))
            for payload, location in zip(payloads, locations, strict=True)
        ]
        kind = jvm.scala.reflect.ClassTag.apply(jvm.java.lang.Class.forName("[B"))
        rows = self._context._jsc.sc().makeRDD(jvm.PythonUtils.toSeq(pairs), kind).toJavaRDD()
        return RDD(rows, self._context, NoOpSerializer())


def run_slots(header: bytes, level: int, payloads: Iterable[bytes]) -> Iterator[Item]:
    """Run the tasks of one level that belong to one slot, and yield the location of this worker."""
    for payload in payloads:
        slot, shuffled = msgspec.msgpack.decode(payload, type=tuple[int, list[Item]])
        yield _LOCATION, _encode((slot, worker_location()))
        yield from run_level(header, level, slot, iter(shuffled))


def worker_location() -> str:
    """Return the location of this worker as Spark's scheduler names it: an executor if known, else a host."""
    match = _EXECUTOR_URL.search(os.environ.get("SPARK_LOG_URL_STDERR", ""))
    return f"executor_{match[1]}_{match[2]}" if match else socket.gethostname()
