"""Zone counts on Kafka with one, two and three Spark workers, compared with one host on the same cores, in one run.

A backlog of rides (benchmarks/zone_counts.py) is re-keyed and counted exactly once, with changelogs. Each side is its
own app with its own process; the counts are verified. The result is records per second over all batches except the
first two, which start the workers, and the private memory of the driver and its JVM, at most in the first and in the
last third of the time: it must not grow with the records that pass between the levels. On one host the memory includes
that of the Python workers.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.processes import memory_megabytes, process_tree
from benchmarks.zone_counts import SOURCE, ZoneCount, app, expected_counts, load, read_counts, ride_lines
from tests.spark.standalone import LoopbackMachine, Standalone, standalone

from millstream.batch.report import BatchReport
from millstream.broker import TopicConfig
from millstream.kafka import KafkaBroker
from millstream.testing.kafka import Cluster

PARTITIONS = 6
_CORES = 2
_SAMPLE_INTERVAL_SECONDS = 0.25
_KEEP_ALL = {"log.retention.ms": -1}  # rides have old timestamps


def run_app() -> None:
    """Run the app in this process until it has caught up, and print the result as JSON."""
    reports: list[BatchReport] = []
    samples: list[float] = []
    done = threading.Event()

    def sample() -> None:
        while not done.wait(_SAMPLE_INTERVAL_SECONDS):
            samples.append(sum(memory_megabytes(pid, "Private_Dirty") for pid in process_tree(os.getpid())))

    sampler = threading.Thread(target=sample)
    sampler.start()
    try:
        app.run("caught-up", on_batch=reports.append)
    finally:
        done.set()
        sampler.join()
    warm, third = reports[2:], max(1, len(samples) // 3)
    result = {
        "records/s": sum(report.records_in for report in warm) / sum(report.seconds for report in warm),
        "batches": len(reports),
        "MB at first": max(samples[:third]),
        "MB at last": max(samples[-third:]),
    }
    print(json.dumps(result))


def run_side(workers: int, directory: Path, url: str, expected: Counter[tuple[int, int]]) -> dict[str, Any]:
    """Count the backlog with that many workers, none: in this host's own processes; verify and return the result."""
    target = f"counts-{directory.name}"
    with _spark(workers, directory) as spark, KafkaBroker(url) as broker:
        broker.create_topic(target, TopicConfig(partitions=PARTITIONS))
        environment = {
            **os.environ,
            "MILLSTREAM_BROKER": url,
            "MILLSTREAM_DATA_DIR": str(directory / "driver"),
            "ZONE_COUNTS_APP": f"zone-{directory.name}",
            "ZONE_COUNTS_TOPICS": f"{SOURCE},{target}",
            "ZONE_COUNTS_PARTITIONS": str(PARTITIONS),
            **({} if spark is None else {"ZONE_COUNTS_MASTER": spark.url}),
        }
        command = [sys.executable, "-m", "benchmarks.workers", "--run"]
        output = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True).stdout
        counts = {(count.zone, count.start): count.count for _, _, count in read_counts(broker, target, ZoneCount)}
    assert counts == expected, "the counts are wrong"
    result: dict[str, Any] = json.loads(output.splitlines()[-1])
    return result


@contextlib.contextmanager
def _spark(workers: int, directory: Path) -> Iterator[Standalone | None]:
    """Run a cluster whose workers share the cores; one worker has all of them, others have one each."""
    if not workers:
        yield None
        return
    with standalone(directory) as spark:
        for number in range(workers):
            spark.start_worker(LoopbackMachine(number + 2, directory), cores=_CORES if workers == 1 else 1)
        yield spark


def main() -> None:
    """Measure the sides in turn and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=3_000_000)
    parser.add_argument("--workers", type=int, nargs="+", default=[0, 1, 2, 3], help="0: one host without a cluster")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--json", type=Path, help="write the results to this file")
    parser.add_argument("--run", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.run:
        run_app()
        return
    lines = list(ride_lines(arguments.records))
    expected = expected_counts(lines)
    results: dict[str, list[dict[str, Any]]] = {}
    with (
        tempfile.TemporaryDirectory(prefix="workers-", ignore_cleanup_errors=True) as directory,
        Cluster(long_running=True, properties=_KEEP_ALL) as kafka,
    ):
        with KafkaBroker(kafka.url) as broker:
            load(broker, lines, SOURCE, PARTITIONS)
        del lines
        for number in range(arguments.rounds):
            for workers in arguments.workers:
                result = run_side(workers, Path(directory) / f"{number}-{workers}", kafka.url, expected)
                name = f"{workers} workers" if workers else "one host"
                results.setdefault(name, []).append(result)
                print(f"{name:<12}", *(f"{value:>14,.0f} {what}" for what, value in result.items()), flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
