"""Queues: records per second through a share group of the embedded log, each poll flushed to disk.

    .venv/bin/python benchmarks/queues.py [RECORDS]

One member takes records of a topic with one partition and accepts them with its next poll. Each poll is one synced
transaction, so the number of records per poll decides. The CPU time is that of the whole process.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from time import perf_counter, process_time

from millstream.broker import Output, TopicConfig
from millstream.foundation.blocks import block_of
from millstream.log import EmbeddedLog
from millstream.queues.share_consumer import ShareConsumer

_BLOCK = 10_000
_SIZES = (1, 50, 500, 2_000)
_MAX_POLLS = 2_000


def fill(log: EmbeddedLog, records: int) -> None:
    """Write records of 100 bytes."""
    log.create_topic("jobs", TopicConfig(partitions=1))
    block = block_of([b"key"] * _BLOCK, [b"x" * 100] * _BLOCK, [0] * _BLOCK)
    for _ in range(records // _BLOCK):
        log.append([Output("jobs", 0, block)])


def measure(log: EmbeddedLog, records: int, size: int) -> tuple[float, float, float]:
    """Take records, ``size`` per poll; return records per second, polls per second and records per CPU second."""
    taken = polls = 0
    consumer = ShareConsumer(
        log, f"group-{size}", topics="jobs", key=bytes, value=bytes, acknowledge="implicit", start="earliest"
    )
    with consumer:
        started, cpu = perf_counter(), process_time()
        while taken < records and polls < _MAX_POLLS:
            taken += len(consumer.poll(timeout=0, max_records=size))
            polls += 1
        seconds, cpu = perf_counter() - started, process_time() - cpu
    return taken / seconds, polls / seconds, taken / cpu


def main() -> None:
    records = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    with tempfile.TemporaryDirectory() as directory, EmbeddedLog(Path(directory)) as log:
        fill(log, records)
        print(f"{'per poll':>9} {'records/s':>12} {'polls/s':>9} {'records/CPU s':>14}")
        for size in _SIZES:
            rate, polls, per_cpu = measure(log, records, size)
            print(f"{size:9,} {rate:12,.0f} {polls:9,.0f} {per_cpu:14,.0f}")


if __name__ == "__main__":
    main()
