"""Restore states on the hosts that will run their tasks next, while batches continue elsewhere."""

from __future__ import annotations

import contextlib
import functools
from typing import Any

import msgspec
from pyspark import InheritableThread, SparkContext

from millstream.spark.header import JobHeader, encode_header
from millstream.spark.level_jobs import located
from millstream.spark.placement import ANYWHERE, Slots
from millstream.spark.worker import restore_slots


class WarmUp:
    """A Spark job in the background; what it cannot restore is restored by the tasks when they run."""

    def __init__(
        self, context: SparkContext, job: JobHeader, cores: dict[str, int], hosts: dict[str, str], slots: Slots
    ) -> None:
        self.cores = cores
        self.hosts = hosts
        """The host of each state when the job is done."""
        moving = tuple(slot for level in slots for slot in level if slot.host != ANYWHERE)
        app = msgspec.structs.replace(job.app, slots=(moving,))
        header = encode_header(msgspec.structs.replace(job, app=app))
        self._job: Any = located(context, moving).mapPartitionsWithIndex(functools.partial(restore_slots, header))
        self._thread = InheritableThread(target=self._run, name="millstream-warm-up", daemon=True)
        self._thread.start()

    @property
    def is_done(self) -> bool:
        """Whether the job has ended."""
        return not self._thread.is_alive()

    def _run(self) -> None:
        with contextlib.suppress(Exception):
            self._job.collect()
