"""The hosts of a Spark cluster: which executors run where, and the name and state directory of a worker's own host."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import tempfile
import time
from collections import Counter
from pathlib import Path

from pyspark import RDD, InheritableThread, SparkContext

STATE_DIR_VARIABLE = "MILLSTREAM_STATE_DIR"
_BACKLOG_SECONDS = 2.0  # Spark asks for another executor when a task has waited for a second
_EXECUTOR_URL = re.compile(r"//([^:/]+).*[?&]executorId=")
_HOST_VARIABLES = ("NM_HOST", "SPARK_EXECUTOR_POD_IP")
"""Where YARN and Kubernetes put the name of an executor's host."""


def driver_addresses(context: SparkContext) -> tuple[str, str]:
    """Return the address at which executors reach the driver, and the one at which it listens."""
    conf = context.getConf()
    host = conf.get("spark.driver.host") or "127.0.0.1"
    return host, conf.get("spark.driver.bindAddress") or host


def executor_cores(context: SparkContext) -> dict[str, int]:
    """Return the hosts of executors that accept tasks, each with the number of its cores."""
    spark = context._jsc.sc()
    backend = spark.schedulerBackend()
    executors = spark.statusStore().executorList(True)
    cores: Counter[str] = Counter()
    for index in range(executors.size()):
        executor = executors.apply(index)
        if executor.id() != "driver" and backend.isExecutorActive(executor.id()):
            cores[executor.hostPort().rpartition(":")[0]] += executor.totalCores()
    return dict(cores)


def request_executors(context: SparkContext, tasks: int) -> None:
    """Make Spark start executors if it does so only for tasks that wait: with dynamic allocation."""
    if (context.getConf().get("spark.dynamicAllocation.enabled") or "").lower() == "true":
        waiting = context.parallelize(range(tasks), tasks)
        InheritableThread(target=_run_waiting_tasks, args=(waiting,), name="millstream-executors", daemon=True).start()


def _run_waiting_tasks(waiting: RDD[int]) -> None:
    with contextlib.suppress(Exception):  # the caller reports that there are no executors
        waiting.foreach(lambda _: time.sleep(_BACKLOG_SECONDS))


def host_name() -> str:
    """Return the name of this worker's host, as Spark calls it where that is known."""
    match = _EXECUTOR_URL.search(os.environ.get("SPARK_LOG_URL_STDERR", ""))
    if match:
        return match[1]
    return next(filter(None, map(os.environ.get, _HOST_VARIABLES)), None) or socket.gethostname()


def host_state_dir() -> Path:
    """Return the directory of this host in which executors keep state.

    It belongs to the host, not to an executor, so that the next executor on it finds the state of the previous one.
    """
    configured = os.environ.get(STATE_DIR_VARIABLE)
    if configured:
        return Path(configured)
    persistent = Path("/var/tmp")  # noqa: S108 - a directory of this user is created in it, and checked
    parent = persistent if persistent.is_dir() else Path(tempfile.gettempdir())
    return parent / f"millstream-{os.getuid()}"
