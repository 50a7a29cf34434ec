"""Throughput of the embedded log (append, read, produce, consume) and wake-up latency.

python benchmarks/log.py [--records 1000000] [--repeat 3] [--json FILE]

Records have 100 bytes, blocks have 10,000 records, and every append is synced to disk. The best of the repeats counts,
because other work on the machine can only slow things down; the worst is printed next to it.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter, sleep, time_ns

from millstream.broker import Output, TopicConfig
from millstream.consumer import Consumer
from millstream.foundation.blocks import Block, block_of
from millstream.log import EmbeddedLog
from millstream.producer import Producer

BLOCK = 10_000
RECORD_BYTES = 100
TARGETS = {
    "append": 1_000_000,
    "read as Arrow": 10_000_000,
    "read as Python records": 1_500_000,
    "produce one by one": 200_000,
}

_WAITER = """
import sys
from pathlib import Path
from time import time_ns
from millstream.log import EmbeddedLog
from millstream.records import TopicPartition
with EmbeddedLog(Path(sys.argv[1])) as log:
    for position in range(int(sys.argv[2])):
        log.wait({TopicPartition("wake", 0): position}, 30)
        print(time_ns(), flush=True)
"""


def sample() -> Block:
    keys = [b"user-%07d" % number for number in range(BLOCK)]
    return block_of(keys, [b"x" * (RECORD_BYTES - len(keys[0]))] * BLOCK, list(range(BLOCK)))


def append(log: EmbeddedLog, records: int) -> int:
    block = sample()
    for number in range(records // BLOCK):
        log.append([Output("bulk", number % 2, block)])
    return records


def read_arrow(log: EmbeddedLog, records: int) -> int:
    count = 0
    for partition, offsets in enumerate(log.offsets("bulk")):
        start = max(0, offsets.end - records // 2)
        count += sum(len(chunk.block) for chunk in log.read("bulk", partition, start, offsets.end))
    return count


def view_arrow(log: EmbeddedLog, records: int) -> int:
    count = 0
    for partition, offsets in enumerate(log.offsets("bulk")):
        with log.view("bulk", partition, max(0, offsets.end - records // 2), offsets.end) as chunks:
            count += sum(len(chunk.block) for chunk in chunks)
    return count


def read_python(log: EmbeddedLog, records: int) -> int:
    consumer = Consumer(log, topics="bulk", key=bytes, value=bytes)
    count = 0
    while count < records and (polled := consumer.poll(0)):
        count += len(polled)
    return count


def produce(log: EmbeddedLog, records: int) -> int:
    keys = [f"user-{number % 5000}" for number in range(records)]
    value = {"zone": 3, "amount": 12.5, "payment": "card"}
    with Producer(log) as producer:
        send = producer.send
        for key in keys:
            send("sent", value, key=key)
    return records


def rate(run: Callable[[EmbeddedLog, int], int], log: EmbeddedLog, records: int, repeat: int) -> tuple[int, int]:
    """Return the best and the worst records per second."""
    rates = []
    for _ in range(repeat):
        start = perf_counter()
        count = run(log, records)
        rates.append(round(count / (perf_counter() - start)))
    return max(rates), min(rates)


def wake_up(log: EmbeddedLog, directory: Path, rounds: int) -> list[float]:
    """Return the sorted delays, in milliseconds, between a committed append and the wake-up of another process."""
    block = sample().slice(0, 1)
    delays = []
    with subprocess.Popen(
        [sys.executable, "-c", _WAITER, str(directory), str(rounds)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        for number in range(rounds):
            sleep(1.0 if number == 0 else 0.002)  # the other process must be waiting again before the next append
            log.append([Output("wake", 0, block)])
            committed_at = time_ns()
            delays.append((int(process.stdout.readline()) - committed_at) / 1e6)
    return sorted(delays)


def measure(records: int, repeat: int, rounds: int) -> dict[str, float]:
    results: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as name, EmbeddedLog(Path(name)) as log:
        for topic, partitions in (("bulk", 2), ("sent", 4), ("wake", 1)):
            log.create_topic(topic, TopicConfig(partitions=partitions))
        append(log, BLOCK)  # warm up imports and page tables
        produce(log, 1000)
        runs = {
            "append": append,
            "read as Arrow": read_arrow,
            "view as Arrow": view_arrow,
            "read as Python records": read_python,
            "produce one by one": produce,
        }
        print(f"{'':24} {'best rec/s':>12} {'worst':>12} {'target':>12}")
        for title, run in runs.items():
            best, worst = rate(run, log, records // 4 if run is produce else records, repeat)
            target = TARGETS.get(title)
            print(f"{title:24} {best:>12,} {worst:>12,} {target or '':>12,}" if target else f"{title:24} {best:>12,}")
            results[title] = best
        delays = wake_up(log, Path(name), rounds)
        results["wake-up p50 ms"] = round(delays[len(delays) // 2], 3)
        results["wake-up p99 ms"] = round(delays[len(delays) * 99 // 100], 3)
        print(f"wake-up across processes: p50 {results['wake-up p50 ms']} ms, p99 {results['wake-up p99 ms']} ms")
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=200, help="wake-ups to measure")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the results to this file")
    arguments = parser.parse_args()
    results = measure(arguments.records, arguments.repeat, arguments.rounds)
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
