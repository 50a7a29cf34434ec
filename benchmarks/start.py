"""How long ``millstream run`` takes until its first result, and what an idle app costs.

The app is ``examples/word_count.py`` with its dashboard, as a user starts it, on the embedded log.

- first start: in an empty data directory, with a line that waits in the topic.
- restart: the app has state and was stopped with SIGINT; a line waits. The time is that from the start of the process
  to the first record of the output topic, by the clock and in processor time of all its processes; and the time that
  the process needs to stop. A start before that is not measured: it writes the archive of the JVM's classes.
- idle: processor time and memory of all processes over a time without records. Memory is the proportional set size,
  and the part of it that is private and was written, which the system cannot take back: the rest are pages of files.

It needs a quiet machine: the load average before and after is part of the result. Linux only.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.processes import cpu_seconds, kind_of, memory_megabytes, process_cpu_seconds, process_tree

from millstream.broker import Output, TopicConfig
from millstream.foundation.blocks import block_of
from millstream.log import EmbeddedLog
from millstream.records import TopicPartition

ROOT = Path(__file__).resolve().parents[1]
SOURCE, TARGET = "lines", "word-counts"
FIRST_RESULT_SECONDS = 120.0
SETTLE_SECONDS = 25.0
"""An app does more than usual in the first seconds after a batch: Spark removes what it no longer needs."""


class Start(NamedTuple):
    """What a start took until the first result, in seconds."""

    clock: float
    cpu: float
    stop: float


@contextmanager
def running(data_dir: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run the app until the end of the block, and wait until it has stopped."""
    command = [str(Path(sys.executable).with_name("millstream")), "run", str(ROOT / "examples" / "word_count.py")]
    environment = os.environ | {"MILLSTREAM_DATA_DIR": str(data_dir)}
    output = (data_dir.parent / "output").open("ab")
    with output, subprocess.Popen(command, env=environment, stdout=output, stderr=output) as process:
        try:
            yield process
        finally:
            process.send_signal(signal.SIGINT)


def append_line(log: EmbeddedLog, number: int) -> None:
    """Append one line."""
    log.append([Output(SOURCE, 0, block_of([None], [b"hello %d" % number], [time.time_ns() // 1_000_000]))])


def await_result(log: EmbeddedLog, positions: dict[TopicPartition, int], data_dir: Path) -> None:
    """Wait for a record after the positions."""
    if not log.wait(positions, FIRST_RESULT_SECONDS):
        raise TimeoutError(f"no result: {(data_dir.parent / 'output').read_text()[-2000:]}")


def ends(log: EmbeddedLog) -> dict[TopicPartition, int]:
    """Return the end of each partition of the output topic."""
    return {TopicPartition(TARGET, number): bounds.end for number, bounds in enumerate(log.offsets(TARGET))}


def start_once(data_dir: Path, number: int) -> Start:
    """Append a line, start the app, and stop it after its first result."""
    with EmbeddedLog(data_dir) as log:
        append_line(log, number)
        positions = ends(log)
        started_at = time.perf_counter()
        with running(data_dir) as process:
            await_result(log, positions, data_dir)
            clock = time.perf_counter() - started_at
            cpu = cpu_seconds([process.pid])
            stopped_at = time.perf_counter()
    return Start(clock, cpu, time.perf_counter() - stopped_at)


def create_topics(data_dir: Path) -> None:
    """Create the topics as a user may do before the first start."""
    with EmbeddedLog(data_dir) as log:
        for topic in (SOURCE, TARGET):
            log.create_topic(topic, TopicConfig(partitions=2))


def measure_idle(data_dir: Path, seconds: float) -> dict[str, Any]:
    """Return what each kind of process costs without records, in percent of a core and megabytes."""
    with EmbeddedLog(data_dir) as log:
        append_line(log, 0)
        positions = ends(log)
        with running(data_dir) as process:
            await_result(log, positions, data_dir)
            time.sleep(SETTLE_SECONDS)
            pids = process_tree(process.pid)
            before = {pid: process_cpu_seconds(pid) for pid in pids}
            time.sleep(seconds)
            cpu = by_kind(pids, lambda pid: 100 * (process_cpu_seconds(pid) - before[pid]) / seconds)
            memory = by_kind(pids, lambda pid: memory_megabytes(pid, "Pss"))
            private = by_kind(pids, lambda pid: memory_megabytes(pid, "Private_Dirty"))
    return {"seconds": seconds, "% of a core": cpu, "MB": memory, "MB, private": private}


def by_kind(pids: list[int], value_of: Callable[[int], float]) -> dict[str, float]:
    """Return the sum of a value over all processes, and over those of each kind."""
    sums = defaultdict[str, float](float)
    for pid in pids:
        for kind in ("all", kind_of(pid)):
            sums[kind] += value_of(pid)
    return {kind: round(value, 2) for kind, value in sums.items()}


def measure(directory: Path, starts: int, idle_seconds: float) -> dict[str, Any]:
    """Return the figures of all parts."""
    result: dict[str, Any] = {"load average before": os.getloadavg()[0]}
    create_topics(directory / "warm-up" / "data")
    start_once(directory / "warm-up" / "data", 0)
    data_dir = directory / "measured" / "data"
    create_topics(data_dir)
    result["first start"] = {"s": round(start_once(data_dir, 0).clock, 2)}
    restarts = [start_once(data_dir, number) for number in range(1, starts + 1)]
    if restarts:
        result["restart"] = {
            "median s": round(statistics.median(start.clock for start in restarts), 2),
            "s": [round(start.clock, 2) for start in restarts],
            "median CPU s": round(statistics.median(start.cpu for start in restarts), 2),
            "median s to stop": round(statistics.median(start.stop for start in restarts), 2),
        }
    if idle_seconds:
        result["idle"] = measure_idle(data_dir, idle_seconds)
    return {**result, "load average after": os.getloadavg()[0]}


def main() -> None:
    """Print the figures as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--starts", type=int, default=7, help="number of restarts (7)")
    parser.add_argument("--idle-seconds", type=float, default=60.0, help="duration of the idle part, 0 to omit it (60)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        print(json.dumps(measure(Path(directory), arguments.starts, arguments.idle_seconds), indent=2))


if __name__ == "__main__":
    main()
