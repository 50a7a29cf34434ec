"""Flink as a side of the comparison: its Java API and its SQL in one JVM, and PyFlink, which calls Python workers.

Flink and its jars come with the Python package, the connector for Kafka from Maven. Exactly once means here that
results become visible with a checkpoint, so the interval of checkpoints decides the latency: a second is common, 0.1 s
is the interval of Kafka Streams. State is in memory (the fastest backend), its checkpoints are on the local disk.
"""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

from benchmarks.peers.environments import clean_environment, flink_jars, python_of
from benchmarks.peers.java import JOBS, compile_job, flink_java
from benchmarks.peers.running import Command, Side, Task
from benchmarks.zone_counts import MINUTE

from millstream.testing.kafka.artifacts import maven_jars

_CONNECTOR = "flink-sql-connector-kafka:5.0.0-2.2"


def _connector() -> Path:
    jars = maven_jars(f"peers/{_CONNECTOR.replace(':', '-')}", [f"org.apache.flink:{_CONNECTOR}"])
    return next(jars.glob("flink-sql-connector-kafka*.jar"))


def _java(task: Task, *, checkpoint_ms: int, merged_ms: int, guarantee: str = "EXACTLY_ONCE") -> list[Command]:
    """Return the command that runs the job with the Java API in an embedded cluster of two slots."""
    classes = task.directory / "classes"
    jars = [*flink_jars(), _connector()]
    compile_job("FlinkZoneCounts.java", classes, jars)
    command = flink_java(classes, "FlinkZoneCounts", heap="2g", jars=jars)
    command += [task.bootstrap, task.group, task.source, task.target, str(task.directory)]
    command += [str(checkpoint_ms), guarantee, str(merged_ms), "10"]
    return [Command(command, os.environ)]


def _script(task: Task, *, job: str, checkpoint_ms: int, **settings: str) -> list[Command]:
    """Return the command that starts a job from Python."""
    python = python_of("flink")
    environment = clean_environment() | {
        "BOOTSTRAP": task.bootstrap,
        "SOURCE": task.source,
        "TARGET": task.target,
        "GROUP": task.group,
        "STATE_DIR": str(task.directory),
        "GRACE_MS": str(MINUTE),
        "CONNECTOR": str(_connector()),
        "CHECKPOINT_MS": str(checkpoint_ms),
        "JVM_ARGS": "-Xmx2g",
        "FLINK_LOG_DIR": str(task.directory),
        "PATH": f"{Path(python).parent}{os.pathsep}{os.environ['PATH']}",
    }
    return [Command([python, str(JOBS / job)], environment | settings)]


def flink_sides(merged: str, every_update: str) -> list[Side]:
    """Return the sides in both variants."""
    sides = []
    for name, interval in (("", 1000), (" at 0.1 s", 100)):
        java, sql = partial(_java, checkpoint_ms=interval), partial(_script, job="flink_sql_job.py")
        sql = partial(sql, checkpoint_ms=interval)
        sides += [
            Side(f"flink java{name}", merged, "exactly once", partial(java, merged_ms=100)),
            Side(f"flink java{name}", every_update, "exactly once", partial(java, merged_ms=0)),
            Side(f"flink sql{name}", merged, "exactly once", partial(sql, MERGE="1")),
            Side(f"flink sql{name}", every_update, "exactly once", sql),
        ]
    at_least_once = partial(_java, checkpoint_ms=1000, merged_ms=0, guarantee="AT_LEAST_ONCE")
    python = partial(_script, job="flink_python_job.py", checkpoint_ms=1000)
    return [
        *sides,
        Side("flink java alo", every_update, "at least once", at_least_once),
        Side("pyflink", every_update, "exactly once", python, max_records=200_000, quiet_seconds=8),
    ]
