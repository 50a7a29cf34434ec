"""How cost grows: with keys, with partitions, with levels, and with time.

- keys: a count over ever more keys, the task runner alone on one core. All keys are written first, in random order;
  then random ones are counted in batches of 50,000. State lies on the disk and may be larger than memory.
- partitions: a backlog over one level on Spark, with ever more partitions of the topic.
- levels: the same backlog re-keyed and counted once, twice, three times.
- memory: an app under steady load; resident memory of this process, the JVM and the Python workers together, at the
  end of the first minute and of the last. ``--minutes 60`` is the long run.
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

from millstream import App, Config
from millstream.batch.batch import Batch, Progress, advanced
from millstream.batch.execute import run_here, task_names
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
MEASURED = 400_000
SECONDS_OF_LOAD = 0.05


def by_keys(keys: int) -> dict[str, float]:
    """Count random ones of that many keys, all of which are there already."""
    app = App("growth")
    app.stream("n", value=int).group_by_key().count(name="counts").to_stream().to("out")
    pick = random.Random(7)
    order = list(range(keys))
    pick.shuffle(order)
    order += [pick.randrange(keys) for _ in range(MEASURED)]
    with scratch() as directory, EmbeddedLog(directory / "log", durability="os") as log:
        log.create_topic("n", TopicConfig(partitions=1))
        for start in range(0, len(order), BATCH):
            part = order[start : start + BATCH]
            log.append(
                [Output("n", 0, block_of([b"k%08d" % key for key in part], [b"1"] * len(part), [FIRST] * len(part)))]
            )
        site = TaskEnvironment(
            app=app.id,
            layout=Layout.of(app.plan, {"n": 1}),
            broker=log,
            state_dir=directory / "state",
            policies=Policies.of(app.id, app.config),
            durable=False,
            new_topic=TopicConfig(partitions=1),
        )
        spent = counted(site, keys, len(order))
        state = sum(file.stat().st_size for file in (directory / "state").rglob("data.mdb"))
        close_environments(directory)
    return {"records/s": MEASURED / spent, "state MB": state / 1e6}


def counted(site: TaskEnvironment, first: int, end: int) -> float:
    """Process everything and return the seconds that the records from ``first`` on took."""
    names, progress, spent = task_names(site.layout), Progress(), 0.0
    bounds = [*range(0, first, BATCH), *range(first, end, BATCH), end]
    for number, (start, stop) in enumerate(itertools.pairwise(bounds), 1):
        plan = Batch(number=number, wall_time=0, ranges=(Range("n", 0, start, stop),))
        began = time.perf_counter()
        reports = run_here(site, plan, progress.versions)
        if start >= first:
            spent += time.perf_counter() - began
        progress = advanced(progress, plan, names, reports)
    return spent


def divided(by: int, value: int) -> int:
    """Return the key of a value."""
    return value // by


def counting(levels: int) -> Callable[[App], None]:
    """Return what defines a count after that many re-keyings."""

    def define(app: App) -> None:
        stream = app.stream("n", value=int)
        for level in range(levels):
            share = functools.partial(divided, 10 ** (level + 1))
            stream = stream.group_by(share).count(name=f"level-{level}").to_stream()
        stream.to("out")

    return define


def on_spark(define: Callable[[App], None], partitions: int, records: int) -> dict[str, float]:
    """Work off a backlog and return the records per second of all batches but the first two."""
    with scratch() as directory:
        app = App("growth", data_dir=directory, config=Config(partitions=partitions))
        define(app)
        load(app.broker, partitions, records)
        reports: list[BatchReport] = []
        app.run("caught-up", on_batch=reports.append)
        app.broker.close()
        warm = reports[2:]
        read = sum(sum(one.stop - one.start for one in report.plan.ranges) for report in warm)
        return {"records/s": read / sum(report.seconds for report in warm), "batches": len(reports)}


def load(broker: Broker, partitions: int, records: int) -> None:
    """Fill the topic, all partitions alike."""
    broker.create_topic("n", TopicConfig(partitions=partitions))
    block = min(10_000, records // partitions)
    for start in range(0, records // partitions, block):
        for partition in range(partitions):
            numbers = range(start, start + block)
            values = [b"%d" % (number * 7919 % 100_000) for number in numbers]
            broker.append([Output("n", partition, block_of([None] * block, values, [FIRST + one for one in numbers]))])


def over_time(minutes: float) -> dict[str, float]:
    """Feed an app 2,000 records a second and return its memory in megabytes early and late."""
    with scratch() as directory:
        app = App("growth", data_dir=directory, config=Config(partitions=2))
        counting(2)(app)
        app.broker.create_topic("n", TopicConfig(partitions=2, retention_ms=60_000))
        run = app.start()
        stop = threading.Event()
        feeder = threading.Thread(target=feed, args=(app.broker, stop))
        feeder.start()
        samples: list[float] = []
        began = time.monotonic()
        while not stop.wait(5.0) and time.monotonic() < began + minutes * 60:
            samples.append(resident_megabytes())
        stop.set()
        feeder.join()
        run.stop()
        run.wait()
        app.broker.close()
    minute = samples[: max(1, min(12, len(samples) // 2))]
    return {"MB in the first minute": max(minute), "MB in the last": max(samples[-len(minute) :]), "minutes": minutes}


def feed(broker: Broker, stop: threading.Event) -> None:
    """Append records at a steady rate."""
    sent = 0
    while not stop.wait(SECONDS_OF_LOAD):
        now = time.time_ns() // 1_000_000
        for partition in range(2):
            values = [b"%d" % ((sent + one) * 7919 % 100_000) for one in range(50)]
            broker.append([Output("n", partition, block_of([None] * 50, values, [now] * 50))])
            sent += 50


def resident_megabytes() -> float:
    """Return the memory of this process and all below it that no other process shares, in megabytes."""
    total = 0
    for name in family(os.getpid()):
        try:
            rollup = Path(f"/proc/{name}/smaps_rollup").read_text()
        except OSError:
            continue  # it has ended
        total += sum(int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Private_Dirty"))
    return total / 1000


def family(process: int) -> list[int]:
    """Return a process and everything that it has started."""
    found = [process]
    for task in Path(f"/proc/{process}/task").glob("*/children"):
        for child in task.read_text().split():
            found += family(int(child))
    return found


def main() -> None:
    """Run the parts that were asked for and print a line for each size."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=("keys", "partitions", "levels", "memory"), action="append")
    parser.add_argument("--most-keys", type=int, default=KEYS[-1])
    parser.add_argument("--records", type=int, default=1_000_000, help="of a backlog on Spark")
    parser.add_argument("--minutes", type=float, default=5.0, help="how long memory is watched")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    arguments = parser.parse_args()
    records = arguments.records
    parts: dict[str, dict[str, Callable[[], dict[str, float]]]] = {
        "keys": {f"{keys:,}": functools.partial(by_keys, keys) for keys in KEYS if keys <= arguments.most_keys},
        "partitions": {str(one): functools.partial(on_spark, counting(1), one, records) for one in PARTITIONS},
        "levels": {str(one): functools.partial(on_spark, counting(one), 2, records) for one in LEVELS},
        "memory": {"steady load": functools.partial(over_time, arguments.minutes)},
    }
    figures: dict[str, dict[str, dict[str, float]]] = {}
    try:
        for part in arguments.only or parts:
            for size, measure in parts[part].items():
                found = figures.setdefault(part, {})[size] = measure()
                told = "".join(f"{figure:>14,.0f} {name}" for name, figure in found.items())
                print(f"{part:<12}{size:>12}{told}", flush=True)
    finally:
        stop_spark()
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
