"""A count over many keys on Kafka, exactly once: Millstream's state compared with RocksDB under Kafka Streams.

Both sides write changelogs and merge the updates of a key between commits, as is their default. The topic has each key
once, in random order, so that all rows exist; then random keys follow, and their rate counts: from the moment at which
the group has committed the keys until it has committed everything. ``--keys`` may be given several times.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.peers.java import JOBS, compile_job
from benchmarks.peers.running import Command, Run, Side, SideFailedError, Task, running

from millstream.broker import Output, TopicConfig
from millstream.foundation.blocks import block_of
from millstream.foundation.partitioning import partition_of
from millstream.kafka import KafkaBroker
from millstream.testing.kafka import Cluster, java_program, kafka_jars

PARTITIONS = 2
BLOCK = 20_000
COUNTED = 500_000
KEYS = (1_000, 100_000, 1_000_000)
SAMPLE_INTERVAL_SECONDS = 0.1
TIMEOUT_SECONDS = 900.0
FIRST_TIME = 1_760_000_000_000


def millstream(task: Task) -> list[Command]:
    """Return the command that runs Millstream."""
    environment = {
        **os.environ,
        "MILLSTREAM_BROKER": f"kafka://{task.bootstrap}",
        "MILLSTREAM_DATA_DIR": str(task.directory),
        "KEY_COUNTS_TOPICS": f"{task.source},{task.target}",
        "KEY_COUNTS_APP": task.group,
    }
    return [Command([sys.executable, str(JOBS / "key_counts_job.py")], environment)]


def kafka_streams(task: Task) -> list[Command]:
    """Return the command that runs the same with Kafka Streams."""
    classes = task.directory / "classes"
    compile_job("KeyCounts.java", classes)
    command = [java_program(), "-Xmx1g", "-cp", f"{classes}:{kafka_jars()}/*", "KeyCounts", task.bootstrap]
    return [Command([*command, task.group, task.source, task.target, str(task.directory)], os.environ)]


SIDES = (
    Side("millstream", "lmdb", "exactly once", millstream),
    Side("kafka streams", "rocksdb", "exactly once", kafka_streams),
)


def load(broker: KafkaBroker, topic: str, keys: int) -> None:
    """Write each key once, then random ones."""
    rng = random.Random(7)
    order = list(range(keys))
    rng.shuffle(order)
    order += [rng.randrange(keys) for _ in range(COUNTED)]
    broker.create_topic(topic, TopicConfig(partitions=PARTITIONS))
    for start in range(0, len(order), BLOCK):
        parts: list[list[bytes]] = [[] for _ in range(PARTITIONS)]
        for key in order[start : start + BLOCK]:
            encoded = b"k%08d" % key
            parts[partition_of(encoded, PARTITIONS)].append(encoded)
        broker.append(
            [
                Output(topic, partition, block_of(part, [b"1"] * len(part), [FIRST_TIME] * len(part)))
                for partition, part in enumerate(parts)
            ]
        )


def measure(broker: KafkaBroker, side: Side, task: Task, keys: int) -> dict[str, Any]:
    """Let a side count everything; return the rate and the CPU seconds of the random keys."""
    broker.create_topic(task.target, TopicConfig(partitions=PARTITIONS))
    with running(side, task) as run:
        first, cpu, committed_first = _wait(broker, run, task, keys)
        last, cpu_end, committed = _wait(broker, run, task, keys + COUNTED)
    counted = committed - committed_first
    return {
        "records_per_second": counted / (last - first) if counted else None,
        "cpu_seconds": (cpu_end - cpu) / counted * 1e6 if counted else None,
        "from_start": (keys + COUNTED) / (last - run.started_at),
        "cpu_from_start": cpu_end / (keys + COUNTED) * 1e6,
    }


def _wait(broker: KafkaBroker, run: Run, task: Task, records: int) -> tuple[float, float, int]:
    """Wait until the group has committed that many records; return when, the CPU time so far and how many it was."""
    while (committed := sum(broker.committed(task.group).values())) < records:
        if not run.is_alive() or time.perf_counter() - run.started_at > TIMEOUT_SECONDS:
            raise run.failure(f"it exited, or took more than {TIMEOUT_SECONDS:.0f} s ({committed:,} records)")
        time.sleep(SAMPLE_INTERVAL_SECONDS)
    return time.perf_counter(), run.cpu_seconds(), committed


def main() -> None:
    """Measure both sides for each number of keys and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, action="append", help=f"default: {', '.join(map(str, KEYS))}")
    parser.add_argument("--json", type=Path, help="write the results to this file")
    arguments = parser.parse_args()
    results: dict[str, dict[str, Any]] = {}
    print(f"{'keys':>12} {'side':<16}{'records/s':>12}{'CPU s per million':>20}{'from start':>14}{'CPU s':>10}")
    with (
        Cluster(long_running=True, properties={"log.retention.ms": -1}) as cluster,
        KafkaBroker(cluster.url) as broker,
        tempfile.TemporaryDirectory(prefix="key-counts-", ignore_cleanup_errors=True) as directory,
    ):
        for keys in arguments.keys or KEYS:
            load(broker, f"keys-{keys}", keys)
            for side in SIDES:
                group = f"{side.name.replace(' ', '-')}-{keys}"
                task = Task(cluster.bootstrap, f"keys-{keys}", f"{group}-out", group, Path(directory) / group)
                try:
                    result = results[f"{keys} {side.name}"] = measure(broker, side, task, keys)
                except SideFailedError as error:
                    print(f"{keys:>12,} {side.name:<16} failed: {error}", flush=True)
                    continue
                rate, cpu = result["records_per_second"] or 0, result["cpu_seconds"] or 0
                print(
                    f"{keys:>12,} {side.name:<16}{rate:>12,.0f}{cpu:>20.1f}{result['from_start']:>14,.0f}"
                    f"{result['cpu_from_start']:>10.1f}",
                    flush=True,
                )
                if arguments.json:
                    arguments.json.write_text(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
