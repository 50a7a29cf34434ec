"""How cost grows with the number of keys, partitions and levels, and over time.

- keys: a count over a growing number of keys, with the task runner alone on one core, in records per second of CPU
  time. All keys are written first, in random order; then random keys are counted in batches of 50,000. State is on disk
  and may be larger than memory. Batches that are measured step by step do not count: they are rare in an app, not here.
- partitions: a backlog over one level on Spark, with a growing number of partitions.
- levels: the same backlog re-keyed and counted once, twice, three times.
- memory: an app under steady load; private memory of this process, the JVM and the Python workers together, at most in
  the first and in the last minute. ``--minutes 60`` is the long run.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import os
import random
import threading
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.operators import BATCH, FIRST, scratch
from benchmarks.processes import memory_megabytes, process_tree

from millstream import App, Config, Stream
from millstream.batch.batch import Batch, Progress, progress_after
from millstream.batch.execute import run_batch, task_names
from millstream.batch.report import BatchReport
from millstream.broker import Broker, Output, TopicConfig
from millstream.foundation.blocks import block_of
from millstream.foundation.storage import close_environments
from millstream.log import EmbeddedLog
from millstream.plan.layout import Layout
from millstream.spark.run import stop_spark
from millstream.task.environment import TaskEnvironment
from millstream.task.policy import Policies
from millstream.task.task_input import Range

KEYS = (1_000, 100_000, 1_000_000, 10_000_000)
PARTITIONS = (1, 2, 8, 32)
LEVELS = (1, 2, 3)
MEASURED = 500_000
FEED_INTERVAL_SECONDS = 0.05


def by_keys(keys: int) -> dict[str, float]:
    """Count records with random keys, all of which already have a row."""
    app = App("growth")
    app.stream("n", value=int).group_by_key().count(name="counts").to_stream().to("out")
    rng = random.Random(7)
    order = list(range(keys))
    rng.shuffle(order)
    order += [rng.randrange(keys) for _ in range(MEASURED)]
    with scratch() as directory, EmbeddedLog(directory / "log", durability="os") as log:
        log.create_topic("n", TopicConfig(partitions=1))
        for start in range(0, len(order), BATCH):
            batch = order[start : start + BATCH]
            log.append(
                [Output("n", 0, block_of([b"k%08d" % key for key in batch], [b"1"] * len(batch), [FIRST] * len(batch)))]
            )
        environment = TaskEnvironment(
            app=app.id,
            layout=Layout.of(app.plan, {"n": 1}),
            broker=log,
            state_dir=directory / "state",
            policies=Policies.of(app.id, app.config),
            durable=False,
            new_topic=TopicConfig(partitions=1),
        )
        records, seconds = run_batches(environment, keys, len(order))
        state_bytes = sum(path.stat().st_size for path in (directory / "state").rglob("data.mdb"))
        close_environments(directory)
    return {"records/CPU s": records / seconds, "state MB": state_bytes / 1e6}


def run_batches(environment: TaskEnvironment, first: int, end: int) -> tuple[int, float]:
    """Process all records; return the number of those from offset ``first`` on, and the CPU seconds they took."""
    names, progress, records, seconds = task_names(environment.layout), Progress(), 0, 0.0
    bounds = [*range(0, first, BATCH), *range(first, end, BATCH), end]
    for number, (start, stop) in enumerate(itertools.pairwise(bounds), 1):
        plan = Batch(number=number, wall_time=0, ranges=(Range("n", 0, start, stop),))
        started_at = time.process_time()
        reports = run_batch(environment, plan, progress.versions)
        if start >= first and all(report.measured is None for report in reports):
            seconds += time.process_time() - started_at
            records += stop - start
        progress = progress_after(progress, plan, names, reports)
    return records, seconds


def key_of(divisor: int, value: int) -> int:
    """Return the key of a value."""
    return value // divisor


def counting(levels: int) -> Callable[[App], None]:
    """Return a function that builds a topology with that many levels of re-keying and counting."""

    def define(app: App) -> None:
        stream: Stream[str | int, int] = app.stream("n", value=int)
        for level in range(levels):
            mapper = functools.partial(key_of, 10 ** (level + 1))
            stream = stream.group_by(mapper).count(name=f"level-{level}").to_stream()
        stream.to("out")

    return define


def on_spark(define: Callable[[App], None], partitions: int, records: int) -> dict[str, float]:
    """Process a backlog and return the records per second of all batches except the first two."""
    with scratch() as directory:
        app = App("growth", data_dir=directory, config=Config(partitions=partitions))
        define(app)
        load(app.broker, partitions, records)
        reports: list[BatchReport] = []
        app.run("caught-up", on_batch=reports.append)
        app.broker.close()
        warm = reports[2:]
        read = sum(sum(range_.stop - range_.start for range_ in report.plan.ranges) for report in warm)
        return {"records/s": read / sum(report.seconds for report in warm), "batches": len(reports)}


def load(broker: Broker, partitions: int, records: int) -> None:
    """Fill the topic, all partitions equally."""
    broker.create_topic("n", TopicConfig(partitions=partitions))
    block = min(10_000, records // partitions)
    for start in range(0, records // partitions, block):
        for partition in range(partitions):
            numbers = range(start, start + block)
            values = [b"%d" % (number * 7919 % 100_000) for number in numbers]
            broker.append(
                [Output("n", partition, block_of([None] * block, values, [FIRST + number for number in numbers]))]
            )


def over_time(minutes: float) -> dict[str, float]:
    """Feed an app with 2,000 records per second and return its memory in the first and last minute, in megabytes."""
    with scratch() as directory:
        app = App("growth", data_dir=directory, config=Config(partitions=2))
        counting(2)(app)
        app.broker.create_topic("n", TopicConfig(partitions=2, retention_ms=60_000))
        run = app.start()
        stop = threading.Event()
        feeder = threading.Thread(target=feed, args=(app.broker, stop))
        feeder.start()
        samples: list[float] = []
        started_at = time.monotonic()
        while not stop.wait(5.0) and time.monotonic() < started_at + minutes * 60:
            samples.append(resident_megabytes())
        stop.set()
        feeder.join()
        run.stop()
        run.wait()
        app.broker.close()
    first_minute = samples[: max(1, min(12, len(samples) // 2))]
    last_minute = samples[-len(first_minute) :]
    return {"MB in the first minute": max(first_minute), "MB in the last": max(last_minute), "minutes": minutes}


def feed(broker: Broker, stop: threading.Event) -> None:
    """Append records at a steady rate."""
    sent = 0
    while not stop.wait(FEED_INTERVAL_SECONDS):
        now = time.time_ns() // 1_000_000
        for partition in range(2):
            values = [b"%d" % ((sent + number) * 7919 % 100_000) for number in range(50)]
            broker.append([Output("n", partition, block_of([None] * 50, values, [now] * 50))])
            sent += 50


def resident_megabytes() -> float:
    """Return the private memory of this process and all its descendants, in megabytes."""
    return sum(memory_megabytes(pid, "Private_Dirty") for pid in process_tree(os.getpid()))


def main() -> None:
    """Run the selected parts and print a line for each size."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=("keys", "partitions", "levels", "memory"), action="append")
    parser.add_argument("--most-keys", type=int, default=KEYS[-1])
    parser.add_argument("--records", type=int, default=1_000_000, help="size of the backlog on Spark")
    parser.add_argument("--minutes", type=float, default=5.0, help="duration of the memory benchmark")
    parser.add_argument("--json", type=Path, help="write the results to this file")
    arguments = parser.parse_args()
    records = arguments.records
    parts: dict[str, dict[str, Callable[[], dict[str, float]]]] = {
        "keys": {f"{keys:,}": functools.partial(by_keys, keys) for keys in KEYS if keys <= arguments.most_keys},
        "partitions": {str(count): functools.partial(on_spark, counting(1), count, records) for count in PARTITIONS},
        "levels": {str(count): functools.partial(on_spark, counting(count), 2, records) for count in LEVELS},
        "memory": {"steady load": functools.partial(over_time, arguments.minutes)},
    }
    results: dict[str, dict[str, dict[str, float]]] = {}
    try:
        for part in arguments.only or parts:
            for size, measure in parts[part].items():
                result = results.setdefault(part, {})[size] = measure()
                values = "".join(f"{value:>14,.0f} {name}" for name, value in result.items())
                print(f"{part:<12}{size:>12}{values}", flush=True)
    finally:
        stop_spark()
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
