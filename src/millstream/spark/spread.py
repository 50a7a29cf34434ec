"""Batches over several hosts: a Spark job for each level, whose tasks go back to where they ran last.

State is local to an executor and is shipped to the checkpoint, so that a task which lands elsewhere can fetch it. What
one level sends to the next passes through the driver: only so can each task of each level be given a place, which
Spark's shuffle does not take.
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
from millstream.spark.worker import FAILURE, REPORT, Item, results, run_level
from millstream.state.task import StateVersion
from millstream.task.report import TaskReport

_PLACE = -(2**31)
_encode = msgspec.msgpack.Encoder().encode
_EXECUTOR_URL = re.compile(r"//([^:/]+).*[?&]executorId=([^&]+)")


def is_spread(config: Config) -> bool:
    """Whether tasks run on executors with disks of their own; that needs a checkpoint."""
    local = config.master == "local" or config.master.startswith("local[")
    if not local and config.checkpoint is None:
        raise DefinitionError(
            f"master={config.master!r} runs tasks on several executors, but state has no place to be shipped to",
            hint="give checkpoint= a path or URI that all hosts reach",
        )
    return not local


def executor_state_dir(app: str, lineage: str) -> str:
    """Return where an executor keeps state: under its own working directory, which no other has."""
    return str(Path("millstream-state") / app / lineage)


class SpreadJob:
    """Runs batches of one app on the executors of a cluster."""

    def __init__(self, context: SparkContext, header: AppHeader, layout: Layout) -> None:
        self._context = context
        self._header = header
        self._level_of = {task: level for level in range(layout.plan.levels) for task in layout.tasks_on(level)}
        self._places: dict[tuple[int, int], str] = {}
        """Where the tasks of each level and slot ran last."""

    def __call__(self, plan: Batch, versions: Mapping[str, StateVersion]) -> list[TaskReport]:
        """Run a batch level by level and return the reports of its tasks."""
        header = encode_header(JobHeader(app=self._header, plan=plan, versions=dict(versions)))
        reports: list[Item] = []
        letters: list[Item] = []
        for level in range(len(self._header.widths)):
            items = self._run_level(header, level, [one for one in letters if self._level_of[one[0]] == level])
            reports += [one for one in items if one[0] == REPORT or one[0] <= FAILURE]
            if any(number <= FAILURE for number, _ in items):
                break
            letters += [one for one in items if one[0] >= 0]
        return results(reports)

    def _run_level(self, header: bytes, level: int, letters: list[Item]) -> list[Item]:
        width = self._header.widths[level]
        slots: dict[int, list[Item]] = defaultdict(list)
        for letter in letters:
            slots[letter[0] % width].append(letter)
        payloads = [_encode((slot, slots[slot])) for slot in range(width)]
        places = [self._places.get((level, slot)) for slot in range(width)]
        with translated():
            items = self._located(payloads, places).mapPartitions(functools.partial(run_slot, header, level)).collect()
        for number, data in items:
            if number == _PLACE:
                slot, place = msgspec.msgpack.decode(data, type=tuple[int, str])
                self._places[level, slot] = place
        return [one for one in items if one[0] != _PLACE]

    def _located(self, payloads: list[bytes], places: list[str | None]) -> RDD[bytes]:
        """Return an RDD with one payload in each partition, which prefers its place; PySpark itself cannot do this."""
        jvm = self._context._jvm
        assert jvm is not None
        pairs = [
            jvm.scala.Tuple2(bytearray(payload), jvm.PythonUtils.toSeq([] if place is None else [place]))
            for payload, place in zip(payloads, places, strict=True)
        ]
        kind = jvm.scala.reflect.ClassTag.apply(jvm.java.lang.Class.forName("[B"))
        rows = self._context._jsc.sc().makeRDD(jvm.PythonUtils.toSeq(pairs), kind).toJavaRDD()
        return RDD(rows, self._context, NoOpSerializer())


def run_slot(header: bytes, level: int, payloads: Iterable[bytes]) -> Iterator[Item]:
    """Run the tasks of one level that belong to one slot, and say where that was."""
    for payload in payloads:
        slot, letters = msgspec.msgpack.decode(payload, type=tuple[int, list[Item]])
        yield _PLACE, _encode((slot, place_of_worker()))
        yield from run_level(header, level, slot, iter(letters))


def place_of_worker() -> str:
    """Return where this worker runs in the words of Spark's scheduler: an executor if that is known, or a host."""
    found = _EXECUTOR_URL.search(os.environ.get("SPARK_LOG_URL_STDERR", ""))
    return f"executor_{found[1]}_{found[2]}" if found else socket.gethostname()
