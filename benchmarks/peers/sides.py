"""The sides of the comparison: how each is started, with which settings, and how to measure it.

A Python job is a plain script that uses its peer's library (``jobs/``), run by the Python of that peer's environment.
Environment variables configure it: BOOTSTRAP, SOURCE, TARGET, GROUP, STATE_DIR and GRACE_MS.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from benchmarks.peers.environments import SPARK_VERSION, clean_environment, python_of
from benchmarks.peers.flink import flink_sides
from benchmarks.peers.java import compile_job
from benchmarks.peers.running import Command, Side, Task
from benchmarks.zone_counts import MINUTE

from millstream.testing.kafka import java_program, kafka_jars
from millstream.testing.kafka.artifacts import maven_jars
from millstream.testing.kafka.node import free_port

CACHING, EVERY_UPDATE = VARIANTS = ("caching", "every update")
_JOBS = Path(__file__).with_name("jobs")
_PROCESSES = range(2)


def _millstream(task: Task, *, caching: bool, guarantee: str = "exactly_once") -> list[Command]:
    environment = {
        **os.environ,
        "MILLSTREAM_BROKER": f"kafka://{task.bootstrap}",
        "MILLSTREAM_DATA_DIR": str(task.directory),
        "ZONE_COUNTS_CACHING": str(int(caching)),
        "ZONE_COUNTS_GUARANTEE": guarantee,
        "ZONE_COUNTS_TOPICS": f"{task.source},{task.target}",
        "ZONE_COUNTS_APP": task.group,
    }
    return [Command([sys.executable, str(Path(__file__).parents[1] / "zone_counts.py"), "--run"], environment)]


def _kafka_streams(task: Task, *, caching: bool) -> list[Command]:
    classes = task.directory / "classes"
    compile_job("ZoneCounts.java", classes)
    command = [java_program(), "-Xmx1g", "-cp", f"{classes}:{kafka_jars()}/*", "ZoneCounts", task.bootstrap]
    command += [task.group, task.source, task.target, "-" if caching else "0", str(task.directory)]
    return [Command(command, os.environ)]


def _script(peer: str, task: Task, arguments: Sequence[str], *, process: int = 0, **settings: str) -> Command:
    """Return the command that runs a job with the Python of its peer, with the common and additional settings."""
    state = task.directory / str(process)
    state.mkdir()
    environment = clean_environment() | {
        "BOOTSTRAP": task.bootstrap,
        "SOURCE": task.source,
        "TARGET": task.target,
        "GROUP": task.group,
        "STATE_DIR": str(state),
        "GRACE_MS": str(MINUTE),
    }
    return Command([python_of(peer), *arguments], environment | settings)


def _quix(task: Task, *, commit_seconds: float) -> list[Command]:
    program, interval = [str(_JOBS / "quix_job.py")], str(commit_seconds)
    return [_script("quix", task, program, process=process, COMMIT_SECONDS=interval) for process in _PROCESSES]


def _bytewax(task: Task) -> list[Command]:
    addresses = ";".join(f"127.0.0.1:{free_port()}" for _ in _PROCESSES)
    program = ["-m", "bytewax.run", "-a", addresses, str(_JOBS / "bytewax_job.py")]
    return [_script("bytewax", task, [*program, "-i", str(process)], process=process) for process in _PROCESSES]


def _pathway(task: Task) -> list[Command]:
    return [_script("pathway", task, [str(_JOBS / "pathway_job.py")], PATHWAY_THREADS="2")]


def _spark(task: Task) -> list[Command]:
    connector = f"spark-sql-kafka-0-10_2.13:{SPARK_VERSION}"
    jars = maven_jars(f"peers/{connector.replace(':', '-')}", [f"org.apache.spark:{connector}"])
    names = ",".join(map(str, sorted(jars.glob("*.jar"))))
    return [_script("spark", task, [str(_JOBS / "spark_job.py")], SPARK_JARS=names)]


def _faust(task: Task) -> list[Command]:
    worker = [str(_JOBS / "faust_job.py"), "worker", "--loglevel", "warn", "--without-web"]
    return [_script("faust", task, worker, process=process) for process in _PROCESSES]


def _quix_side(name: str, *, commit_seconds: float, quiet_seconds: float) -> Side:
    start = partial(_quix, commit_seconds=commit_seconds)
    return Side(name, EVERY_UPDATE, "exactly once", start, max_records=200_000, quiet_seconds=quiet_seconds)


SIDES = (
    Side("millstream", CACHING, "exactly once", partial(_millstream, caching=True)),
    Side("millstream", EVERY_UPDATE, "exactly once", partial(_millstream, caching=False)),
    Side(
        "millstream alo", EVERY_UPDATE, "at least once", partial(_millstream, caching=False, guarantee="at_least_once")
    ),
    Side("kafka streams", CACHING, "exactly once", partial(_kafka_streams, caching=True)),
    Side("kafka streams", EVERY_UPDATE, "exactly once", partial(_kafka_streams, caching=False)),
    _quix_side("quix streams", commit_seconds=5, quiet_seconds=12),  # the default interval, for each of two steps
    _quix_side("quix at 0.1 s", commit_seconds=0.1, quiet_seconds=5),  # the interval of Kafka Streams
    Side("bytewax", EVERY_UPDATE, "none", _bytewax, commits=False, quiet_seconds=10),
    Side("pathway", CACHING, "none", _pathway, commits=False, quiet_seconds=10),
    Side("spark", CACHING, "at least once", _spark, commits=False, quiet_seconds=15),
    Side("faust", EVERY_UPDATE, "at least once", _faust, max_records=50_000),
    *flink_sides(CACHING, EVERY_UPDATE),
)
NAMES = tuple(dict.fromkeys(side.name for side in SIDES))
