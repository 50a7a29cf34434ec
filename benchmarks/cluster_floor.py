"""The floor of a small batch on a cluster: 20 records, two levels, two Spark workers and a Kafka broker on this host.

Several settings of Spark can be compared, alternating in one run, each run in its own process and app. The result is
the time of a batch (median and p90 in ms, without the first batches, which start the workers), what its tasks took, and
the time to look up a row on another disk meanwhile, with the age of the copy that was read.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.spark.standalone import LoopbackMachine, standalone

from millstream import App, Config
from millstream.batch.report import BatchReport
from millstream.broker import Broker, Output, TopicConfig
from millstream.errors import MillstreamError
from millstream.foundation.blocks import block_of
from millstream.foundation.storage import close_environments
from millstream.kafka import KafkaBroker
from millstream.tables.opening import open_tables
from millstream.testing.kafka import Cluster

_PARTITIONS = 2
_RECORDS = 20
_SOURCE = "numbers"
_WARM_UP_BATCHES = 20

app = App(
    os.environ.get("CLUSTER_FLOOR_APP", "cluster-floor"),
    config=Config(
        partitions=_PARTITIONS,
        caching=False,
        master=os.environ.get("CLUSTER_FLOOR_MASTER"),
        spark={
            "spark.executor.memory": "512m",
            "spark.executorEnv.CLUSTER_FLOOR_APP": os.environ.get("CLUSTER_FLOOR_APP", ""),
            "spark.executorEnv.CLUSTER_FLOOR_OUT": os.environ.get("CLUSTER_FLOOR_OUT", ""),
            **json.loads(os.environ.get("CLUSTER_FLOOR_SPARK", "{}")),
        },
    ),
)
(
    app.stream(_SOURCE, value=str)
    .group_by(lambda value: value)
    .count(name="counts")
    .to_stream()
    .to(os.environ.get("CLUSTER_FLOOR_OUT", "counts"))
)


def run_app(batches: int) -> None:
    """Feed the app in this process, one small batch at a time, and print the result as JSON."""
    reports: list[BatchReport] = []
    done = threading.Semaphore(0)

    def on_batch(report: BatchReport) -> None:
        reports.append(report)
        done.release()

    with KafkaBroker(os.environ["MILLSTREAM_BROKER"]) as broker:
        run = app.start(on_batch=on_batch)
        for number in range(batches + _WARM_UP_BATCHES):
            _feed(broker, number)
            while not done.acquire(timeout=1.0):
                assert run.is_alive, "the app has stopped"
        app.stop()
    warm = reports[_WARM_UP_BATCHES:]
    result = {
        "batch": _milliseconds([report.seconds for report in warm]),
        "journal": _milliseconds([report.phases.plan + report.phases.done for report in warm]),
        "levels": [
            _milliseconds([max((t.seconds for t in report.tasks if t.stage == stage), default=0.0) for report in warm])
            for stage in dict.fromkeys(task.stage for report in warm for task in report.tasks if task.stage)
        ],
    }
    print(json.dumps(result))


def _milliseconds(seconds: list[float]) -> list[float]:
    """Return the median and the 90th percentile in milliseconds."""
    ranked = sorted(seconds)
    return [round(1000 * statistics.median(ranked), 1), round(1000 * ranked[len(ranked) * 9 // 10], 1)]


def _feed(broker: Broker, number: int) -> None:
    rng = random.Random(number)
    values: list[bytes | None] = [f"v{rng.randrange(100)}".encode() for _ in range(_RECORDS)]
    outputs = [
        Output(_SOURCE, partition, block_of([None] * len(part), part, [number] * len(part)))
        for partition in range(_PARTITIONS)
        if (part := values[partition::_PARTITIONS])
    ]
    broker.append(outputs)


def run_side(settings: str, number: int, master: str, url: str, batches: int) -> dict[str, Any]:
    """Run the app with some settings in a new process and return its result."""
    with tempfile.TemporaryDirectory(prefix="cluster-floor-") as directory, KafkaBroker(url) as broker:
        broker.create_topic(f"counts-{number}", TopicConfig(partitions=_PARTITIONS))
        environment = {
            **os.environ,
            "MILLSTREAM_BROKER": url,
            "MILLSTREAM_DATA_DIR": directory,
            "CLUSTER_FLOOR_APP": f"cluster-floor-{number}",
            "CLUSTER_FLOOR_OUT": f"counts-{number}",
            "CLUSTER_FLOOR_MASTER": master,
            "CLUSTER_FLOOR_SPARK": settings,
        }
        command = [sys.executable, "-m", "benchmarks.cluster_floor", "--run", "--batches", str(batches)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True) as process:
            reads = _read_elsewhere(process, Path(directory) / "elsewhere", environment["CLUSTER_FLOOR_APP"], broker)
            output, _ = process.communicate()
        assert process.returncode == 0
    return {**json.loads(output.splitlines()[-1]), **reads}


def _read_elsewhere(process: subprocess.Popen[str], directory: Path, app: str, broker: Broker) -> dict[str, Any]:
    """Look rows up on another disk while the app runs; return how long that takes and how old the rows are."""
    seconds: list[float] = []
    ages: list[float] = []
    rng = random.Random(7)
    tables: Mapping[str, Any] = {}
    while process.poll() is None:
        threading.Event().wait(0.02)
        with contextlib.suppress(MillstreamError):  # the app has not started, or has no rows yet
            tables = tables or open_tables(directory, app, broker=broker)
            began = time.perf_counter()
            row = tables["counts"].get(f"v{rng.randrange(100)}")
            ended, copied_at = time.perf_counter(), tables["counts"].copied_at
            if row is not None and copied_at is not None:
                seconds.append(ended - began)
                ages.append(time.time() - copied_at / 1000)
    close_environments(directory)
    if not seconds:
        return {}
    return {"look-ups": len(seconds), "look-up": _milliseconds(seconds), "age": _milliseconds(ages)}


def main() -> None:
    """Measure each of the settings several times and print the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batches", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--settings", nargs="+", default=["{}"], help="settings of Spark as JSON, which are compared")
    parser.add_argument("--run", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.run:
        run_app(arguments.batches)
        return
    with (
        tempfile.TemporaryDirectory(prefix="cluster-floor-") as directory,
        Cluster(long_running=True) as kafka,
        KafkaBroker(kafka.url) as broker,
        standalone(Path(directory)) as spark,
    ):
        for machine in (2, 3):
            spark.start_worker(LoopbackMachine(machine, Path(directory)))
        broker.create_topic(_SOURCE, TopicConfig(partitions=_PARTITIONS))
        for number in range(arguments.rounds * len(arguments.settings)):
            settings = arguments.settings[number % len(arguments.settings)]
            print(settings, run_side(settings, number, spark.url, kafka.url, arguments.batches), flush=True)


if __name__ == "__main__":
    main()
