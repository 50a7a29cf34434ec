"""The app of ``test_cluster.py``, which runs on a Spark cluster in its own process and obeys commands.

It prints a line after each batch: its number, the hosts that ran tasks, and whether it ran in seats. ``job`` runs
another Spark job beside the app, ``stop`` ends the app.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path

from pyspark import SparkContext, TaskContext

from millstream import App, Config
from millstream.batch.report import BatchReport

NAME = os.environ.get("CLUSTER_APP", "cluster-app")

ATTEMPTS = os.environ.get("CLUSTER_APP_ATTEMPTS", "")
"""A directory for a file per attempt of a Spark task; if it is given, the first attempts of one slot are slow."""


def words(line: str) -> list[str]:
    """Return the words of a line."""
    task = TaskContext.get()
    if ATTEMPTS and task is not None:
        Path(ATTEMPTS, f"{task.stageId()}.{task.partitionId()}.{task.attemptNumber()}").touch()
        if task.partitionId() == 0 and task.attemptNumber() == 0:
            threading.Event().wait(0.05)
    return line.split()


app = App(
    NAME,
    data_dir=os.environ.get("CLUSTER_APP_DIR", "cluster-app-data"),
    config=Config(
        partitions=2,
        caching=False,
        durability="os",
        small_batch_records=int(os.environ.get("CLUSTER_APP_SMALL", "2000")),
        max_batch_records=20,
        master=os.environ.get("CLUSTER_APP_MASTER"),
        spark={
            "spark.executor.memory": "512m",
            "spark.executorEnv.CLUSTER_APP": NAME,
            "spark.executorEnv.CLUSTER_APP_ATTEMPTS": ATTEMPTS,
            **json.loads(os.environ.get("CLUSTER_APP_SPARK", "{}")),
        },
    ),
)
(
    app.stream(f"{NAME}-lines", value=str)
    .flat_map_values(words)
    .group_by(lambda word: word)
    .count(name="words")
    .to_stream()
    .to(f"{NAME}-counts")
)


def on_batch(report: BatchReport) -> None:
    hosts = sorted({task.host for task in report.tasks if task.stage})
    seated = any(thread.name == "millstream-seats" for thread in threading.enumerate())
    print(json.dumps([report.plan.number, hosts, seated]), flush=True)


def main() -> None:
    """Run the app and obey."""
    app.start(on_batch=on_batch)
    print("started", flush=True)
    for line in sys.stdin:
        if line == "job\n":
            context = SparkContext._active_spark_context
            assert context is not None
            print(json.dumps(context.parallelize(range(100), 2).map(lambda n: n + 1).sum()), flush=True)
        elif line == "stop\n":
            break
    app.stop()


if __name__ == "__main__":
    main()
