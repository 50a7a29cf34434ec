"""What a small batch costs: processor time and duration of batches of 17 records over two levels.

The zone counts (filter, re-key, one-minute count, every update; four tasks on two partitions), run by the loop of a
resident task without Spark, a process per side: on the embedded log, and on a Kafka broker exactly once and at least
once. The records of the next batch are appended before a batch commits; what that costs is subtracted. The processor
time of the loop's own thread depends least on what else the machine does; that of the process includes the threads of
the Kafka client. Results are medians, in milliseconds per batch.
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

from benchmarks.zone_counts import PARTITIONS, SOURCE, TARGET, ZONES, app
from tests.kafka.hosts import Host

from millstream.batch.batch import Batch
from millstream.batch.loop import LoopOptions
from millstream.batch.write_behind import WriteBehind
from millstream.broker import Broker, Output, TopicConfig
from millstream.broker_urls import open_broker
from millstream.foundation.blocks import block_of
from millstream.state.task import StateVersion
from millstream.task.garbage import freeze_loaded_objects
from millstream.task.report import TaskReport
from millstream.testing.kafka import Cluster

SIDES = ("embedded", "kafka, exactly once", "kafka, at least once")
COSTS = ("thread", "process", "duration")
RECORDS = 17
_MAX_RECORDS = 2_000
_WARM_UP = 150


def _now() -> list[float]:
    return [time.thread_time(), time.process_time(), time.perf_counter()]


class Feeder:
    """Appends the records of one batch, and sums up what that costs."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._rng = random.Random(7)
        self._sent = 0
        self.costs = [0.0, 0.0, 0.0]

    def append(self) -> None:
        """Append rides of this moment, alternating between the partitions."""
        began, milliseconds = _now(), time.time_ns() // 1_000_000
        rides: list[list[bytes]] = [[] for _ in range(PARTITIONS)]
        for number in range(self._sent, self._sent + RECORDS):
            zone, amount = self._rng.randrange(1, ZONES + 1), self._rng.randrange(101, 6_000) / 100
            ride = b'{"ride_id":"r%08d","vendor_id":%d,"zone":%d,"amount":%.2f,"pickup":%d}'
            rides[number % PARTITIONS].append(ride % (number, 1 + number % 2, zone, amount, milliseconds))
        self._sent += RECORDS
        blocks = [block_of([None] * len(lines), lines, [milliseconds] * len(lines)) for lines in rides]
        self._broker.append([Output(SOURCE, number, block) for number, block in enumerate(blocks)])
        self.costs = [cost + after - before for cost, after, before in zip(self.costs, _now(), began, strict=True)]


class Fed(WriteBehind):
    """Runs batches; the records of the next one are appended before a batch commits."""

    feeder: Feeder

    def _commit_batch(self, batch: Batch, reports: list[TaskReport]) -> None:
        self.feeder.append()
        super()._commit_batch(batch, reports)


def measure(url: str, batches: int) -> dict[str, float]:
    """Run batches in this process and return the costs of one."""
    broker = open_broker(url, app.data_dir)
    for topic in (SOURCE, TARGET):
        broker.create_topic(topic, TopicConfig(partitions=PARTITIONS))
    run = Host(app, broker.url, app.data_dir, behind=True).start()
    feeder = Feeder(broker)
    behind = Fed(run.env, run.write_behind().journal)
    behind.feeder = feeder
    stop, samples = threading.Event(), [_now()]

    def execute(batch: Batch, versions: Mapping[str, StateVersion]) -> list[TaskReport]:
        reports = behind(batch, versions)
        samples.append([at - fed for at, fed in zip(_now(), feeder.costs, strict=True)])
        if len(samples) > _WARM_UP + batches:
            stop.set()
        return reports

    feeder.append()
    freeze_loaded_objects()
    options = LoopOptions(on_batch=behind.defer_report, stopping=stop, on_idle=behind.flush)
    run.assembly.loop(behind.journal, run.assembly.small_planner(_MAX_RECORDS), execute, options).run()
    behind.close()
    run.stop()
    costs = [
        [after - before for after, before in zip(later, sample, strict=True)]
        for sample, later in zip(samples[_WARM_UP:], samples[_WARM_UP + 1 :], strict=False)
    ]
    medians = [statistics.median(column) * 1000 for column in zip(*costs, strict=True)]
    return dict(zip(COSTS, medians, strict=True))


def in_own_process(side: str, number: int, url: str, batches: int) -> dict[str, float]:
    """Measure one side in a new process."""
    with tempfile.TemporaryDirectory(prefix="small-batches-", ignore_cleanup_errors=True) as directory:
        name, path = f"small-batches-{number}", Path(directory) / "results.json"
        environment = {
            **os.environ,
            "MILLSTREAM_DATA_DIR": directory,
            "ZONE_COUNTS_APP": name,
            "ZONE_COUNTS_TOPICS": f"{name}-rides,{name}-counts",
            "ZONE_COUNTS_CACHING": "0",
            "ZONE_COUNTS_GUARANTEE": "at_least_once" if "at least once" in side else "exactly_once",
        }
        url = url or f"embedded:{directory}"
        command = [sys.executable, "-m", "benchmarks.small_batches", "--here", url, "--batches", str(batches)]
        command += ["--json", str(path)]
        subprocess.run(command, check=True, env=environment, cwd=Path(__file__).parents[1])
        results: dict[str, float] = json.loads(path.read_text())
        return results


def main() -> None:
    """Measure all sides, alternating, and print the best round of each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batches", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--side", choices=SIDES, action="append")
    parser.add_argument("--json", type=Path, help="write the results to this file")
    parser.add_argument("--here", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.here:
        arguments.json.write_text(json.dumps(measure(arguments.here, arguments.batches)))
        return
    sides = arguments.side or SIDES
    rounds: dict[str, list[dict[str, float]]] = {side: [] for side in sides}
    with contextlib.ExitStack() as stack:
        needs_kafka = any(side.startswith("kafka") for side in sides)
        kafka = stack.enter_context(Cluster(long_running=True)).url if needs_kafka else ""
        for number in range(arguments.rounds * len(sides)):
            side = sides[number % len(sides)]
            url = kafka if side.startswith("kafka") else ""
            rounds[side].append(in_own_process(side, number, url, arguments.batches))
    results = {side: min(measured, key=lambda result: result["thread"]) for side, measured in rounds.items()}
    print(f"{'ms per batch':<24}{'thread':>9}{'process':>9}{'duration':>10}")
    for side, result in results.items():
        print(f"{side:<24}{result['thread']:>9.2f}{result['process']:>9.2f}{result['duration']:>10.2f}")
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
