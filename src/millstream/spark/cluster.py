"""Run batches on several hosts: tasks return to the host that has their state, and follow hosts that come and go.

State on a host is a copy of what the checkpoint or the changelog contains, from which a task on another host restores
it. When a host joins, the tasks that it will take over are restored there first, while batches continue; when a host is
lost, its tasks move at once and are restored where they run next.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping

import msgspec
from pyspark import SparkContext

from millstream.batch.activity import Activity
from millstream.batch.batch import Batch
from millstream.batch.execute import task_names
from millstream.batch.logs import log_event
from millstream.config import Config
from millstream.errors import DefinitionError, EngineError
from millstream.plan.layout import Layout
from millstream.spark.executor_watch import ExecutorWatch
from millstream.spark.failures import translated
from millstream.spark.header import AppHeader, JobHeader, encode_header
from millstream.spark.hosts import driver_addresses, executor_cores, request_executors
from millstream.spark.level_jobs import LevelJobs
from millstream.spark.placement import assign, is_displaced, levels_of, slots_of
from millstream.spark.restore_progress import RestoreProgress
from millstream.spark.seating import Seating
from millstream.spark.settings import is_local, master_of
from millstream.spark.warm_up import WarmUp
from millstream.spark.worker import results
from millstream.state.task import StateVersion
from millstream.task.report import TaskReport

_CHECK_SECONDS = 1.0
_FIRST_EXECUTOR_SECONDS = 60.0
_log = logging.getLogger(__name__)


def is_cluster(config: Config, *, has_changelogs: bool = False) -> bool:
    """Whether tasks run on executors with their own disks; that requires changelogs or a checkpoint."""
    master = master_of(config.master)
    if is_local(master):
        return False
    if config.checkpoint is None and not has_changelogs:
        raise DefinitionError(
            f"master={master!r} runs tasks on several executors, but there is no checkpoint for their state",
            hint="give checkpoint= a path or URI that all hosts reach, or use Kafka with changelogs",
        )
    return True


class ClusterJob:
    """Runs batches of one app on the executors of a cluster."""

    def __init__(
        self, context: SparkContext, header: AppHeader, layout: Layout, activity: Activity, seated_records: int = 0
    ) -> None:
        """Run batches of up to ``seated_records`` records in seats, which costs less, and others as Spark jobs."""
        self._seating = Seating(context, seated_records)
        self._progress = RestoreProgress(*driver_addresses(context), activity)
        self._executors = ExecutorWatch(header.tasks.app, context)
        self._context = context
        self._header = msgspec.structs.replace(header, progress=self._progress.address)
        self._levels = levels_of(layout, task_names(layout))
        self._cores: dict[str, int] = {}
        self._hosts: dict[str, str] = {}
        """The host of each state."""
        self._jobs: LevelJobs | None = None
        self._warm_up: WarmUp | None = None
        self._next_check = 0.0

    def __call__(self, batch: Batch, versions: Mapping[str, StateVersion]) -> list[TaskReport]:
        """Run a batch and return the reports of its tasks."""
        with translated(), self._progress.shown(), self._executors.during_batch():
            self._follow_hosts(batch, versions)
            assert self._jobs is not None
            items = self._seating.run(self._header, batch, versions)
            if items is None:
                header = encode_header(JobHeader(app=self._header, batch=batch, versions=dict(versions)))
                items = self._jobs.run(header)
            reports = results(items)
        self._check_locations(reports)
        return reports

    def close(self) -> None:
        """Leave the cores of the cluster to others."""
        self._executors.close()
        self._seating.close()
        self._progress.close()

    def _follow_hosts(self, batch: Batch, versions: Mapping[str, StateVersion]) -> None:
        """Adapt the placement of tasks to the executors that are running now."""
        if self._warm_up is not None and self._warm_up.is_done:
            self._use_hosts(self._warm_up.cores, self._warm_up.hosts)
        if self._jobs is not None and time.monotonic() < self._next_check:
            return
        self._next_check = time.monotonic() + _CHECK_SECONDS
        cores = executor_cores(self._context)
        if not cores:
            cores = self._first_executors()
        if cores == self._cores:
            return
        hosts = assign(self._levels, cores, self._hosts)
        moved = {name: host for name, host in hosts.items() if self._hosts.get(name, host) != host}
        if self._jobs is None or not moved or not set(self._hosts.values()) <= set(cores):
            self._use_hosts(cores, hosts)
        elif self._warm_up is None or self._warm_up.cores != cores:
            header = JobHeader(app=self._header, batch=batch, versions=dict(versions))
            self._warm_up = WarmUp(self._context, header, cores, hosts, slots_of(self._levels, moved, cores))

    def _first_executors(self) -> dict[str, int]:
        """Wait for an executor, since a cluster starts them after the driver."""
        request_executors(self._context, max(map(len, self._levels)))
        deadline = time.monotonic() + _FIRST_EXECUTOR_SECONDS
        while not (cores := executor_cores(self._context)):
            if time.monotonic() > deadline:
                raise EngineError(
                    f"no executor of {self._context.master} has started within {_FIRST_EXECUTOR_SECONDS:.0f} s",
                    hint="check that the cluster has workers with free cores and memory, and that they reach the "
                    f"driver at {self._context.getConf().get('spark.driver.host')}",
                )
            time.sleep(0.1)
        return cores

    def _use_hosts(self, cores: dict[str, int], hosts: dict[str, str]) -> None:
        """Run tasks on these hosts from the next batch on."""
        self._seating.leave()
        if self._jobs is not None:
            self._jobs.close()
        if self._hosts:
            moved = sum(self._hosts.get(name) != host for name, host in hosts.items())
            facts = {"app": self._header.tasks.app, "hosts": len(cores), "moved": moved}
            log_event(_log, logging.INFO, "tasks placed", facts)
        self._cores, self._hosts, self._warm_up = cores, hosts, None
        self._header = msgspec.structs.replace(self._header, slots=slots_of(self._levels, hosts, cores))
        self._jobs = LevelJobs(self._context, self._header.slots)

    def _check_locations(self, reports: list[TaskReport]) -> None:
        """Cache the tokens again if tasks ran on other hosts than planned, as after the restart of an executor."""
        if any(is_displaced(report.name, report.host, self._hosts) for report in reports):
            self._cores = {}
            self._next_check = 0.0
