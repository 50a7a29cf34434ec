"""Records per second of each family of operators: the task runner alone, one partition, one core, no Spark.

Typed JSON values of about 60 bytes, 10,000 keys, one record per millisecond of event time, batches of 50,000. The
result is records per second of CPU time, from reading the log to writing the outbox to it, which reduces the influence
of other work on the machine. The first batch, which finds no state, is not counted, and neither are batches that are
measured step by step: an app has one of them in a hundred, the benchmark one in three. Best of several rounds.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import pstats
import random
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from millstream import App, count_of, hopping, join_window, max_of, mean_of, min_of, session, sliding, tumbling
from millstream.batch.batch import Batch, Progress, progress_after
from millstream.batch.execute import run_batch, task_names
from millstream.broker import Output, TopicConfig
from millstream.foundation.blocks import block_of
from millstream.foundation.storage import close_environments
from millstream.log import EmbeddedLog
from millstream.plan.layout import Layout
from millstream.task.environment import TaskEnvironment
from millstream.task.policy import Policies
from millstream.task.task_input import Range

KEYS = 10_000
BATCH = 50_000
BLOCK = 10_000
FIRST = 1_760_000_000_000


class Trade(msgspec.Struct):
    """A value of the benchmark."""

    symbol: str
    price: float
    shares: int
    account: int


def chain(app: App) -> None:
    """Five stateless steps, one of which drops a tenth of the records."""
    (
        app.stream("left", value=Trade)
        .filter(lambda trade: trade.shares > 10)
        .map_values(lambda trade: trade.price * trade.shares)
        .filter_not(lambda total: total < 0)
        .map_values(lambda total: round(total, 2))
        .map(lambda key, total: (key, total))
        .to("out")
    )


def join_tables(app: App, **options: Any) -> None:
    """Join changes of two tables, half of them on either side."""
    left, right = app.table("left", value=Trade), app.table("right", value=Trade)
    left.join(right, lambda left, right: left.price + right.price, **options).to_stream().to("out")


def windowed(windows: Any) -> Callable[[App], None]:
    """Count by key and window."""

    def define(app: App) -> None:
        app.stream("left", value=Trade).group_by_key().windowed_by(windows).count(name="counts").to_stream().to("out")

    return define


def four_aggregations(app: App) -> None:
    """Four built-in aggregations at once."""
    (
        app.stream("left", value=Trade)
        .group_by_key()
        .agg(low=min_of("price"), high=max_of("price"), mean=mean_of("price"), n=count_of(), name="stats")
        .to_stream()
        .to("out")
    )


def three_tables(*, moved_once: bool) -> Callable[[App], None]:
    """Three tables of the same groups: by one function, or by three that are not known to be the same."""

    def by_account(number: int) -> Callable[[Trade], int]:
        return lambda trade: trade.account + 0 * number  # a closure is only equal to itself

    def define(app: App) -> None:
        trades, shared = app.stream("left", value=Trade), by_account(0)
        keys = [shared if moved_once else by_account(number) for number in range(3)]
        trades.group_by(keys[0]).count(name="counts").to_stream().to("counts")
        trades.group_by(keys[1]).sum("price", name="totals").to_stream().to("totals")
        trades.group_by(keys[2]).mean("shares", name="means").to_stream().to("means")

    return define


FAMILIES: dict[str, tuple[Callable[[App], None], int | None]] = {
    "stateless chain of 5": (chain, 600_000),
    "count": (
        lambda app: app.stream("left", value=Trade).group_by_key().count(name="counts").to_stream().to("out"),
        400_000,
    ),
    "four aggregations at once": (four_aggregations, None),
    "three tables, moved once": (three_tables(moved_once=True), None),
    "three tables, moved 3 times": (three_tables(moved_once=False), None),
    "tumbling count": (windowed(tumbling("1 min", grace="10 s")), 300_000),
    "hopping count, 5 windows": (windowed(hopping("50 s", every="10 s", grace="10 s")), 80_000),
    "sliding count": (windowed(sliding("10 s", grace="10 s")), 60_000),
    "session count": (windowed(session(gap="5 s", grace="10 s")), 150_000),
    "stream-table join": (
        lambda app: (
            app.stream("left", value=Trade)
            .join(app.table("right", value=Trade), lambda left, right: left.price + right.price)
            .to("out")
        ),
        300_000,
    ),
    "stream-stream join": (
        lambda app: (
            app.stream("left", value=Trade)
            .join(
                app.stream("right", value=Trade),
                lambda left, right: left.price + right.price,
                within=join_window("5 s"),
            )
            .to("out")
        ),
        120_000,
    ),
    "table-table join": (join_tables, 150_000),
    "foreign-key join": (lambda app: join_tables(app, on=lambda trade: f"k{trade.account:05}"), 80_000),
}
"""The topology of each family, and its target in records per second."""


def main() -> None:
    """Measure all families and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=400_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", help="only families whose name contains this")
    parser.add_argument("--every-update", action="store_true", help="forward every update: disable caching")
    parser.add_argument("--profile", action="store_true", help="print a profile of each batch")
    parser.add_argument("--json", type=Path, help="write the results to this file")
    arguments = parser.parse_args()
    results: dict[str, float] = {}
    with scratch() as directory, EmbeddedLog(directory / "log", durability="os") as log:
        load(log, arguments.records)
        print(f"{'family':<28}{'records/s':>12}{'target':>12}")
        for name, (define, target) in FAMILIES.items():
            if arguments.only is None or arguments.only in name:
                rounds = [measure(log, define, arguments, directory / "state") for _ in range(arguments.rounds)]
                results[name] = max(rounds)
                target_text = "" if target is None else f"{target:,}"
                print(f"{name:<28}{results[name]:>12,.0f}{target_text:>12}", flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=2))


def load(log: EmbeddedLog, records: int, seed: int = 7) -> None:
    """Write all trades to one topic, and every other one to each of two topics for the joins."""
    rng = random.Random(seed)
    for topic in ("left", "right"):
        log.create_topic(topic, TopicConfig(partitions=1))
        log.create_topic(f"{topic}-half", TopicConfig(partitions=1))
    columns = [
        (
            b"k%05d" % rng.randrange(KEYS),
            b'{"symbol":"S%03d","price":%.2f,"shares":%d,"account":%d}'
            % (rng.randrange(500), rng.randrange(100, 50_000) / 100, rng.randrange(1, 100), rng.randrange(KEYS)),
            FIRST + number,
        )
        for number in range(records)
    ]
    for topic, share in (("left", columns), ("left-half", columns[::2]), ("right", columns[1::2])):
        for start in range(0, len(share), BLOCK):
            keys, values, times = zip(*share[start : start + BLOCK], strict=True)
            log.append([Output(topic, 0, block_of(list(keys), list(values), list(times)))])


def measure(log: EmbeddedLog, define: Callable[[App], None], arguments: argparse.Namespace, state: Path) -> float:
    """Return the records per second of CPU time of a topology over all batches except the first."""
    app = App("operators")
    define(app)
    plan = app.plan
    is_join = len(plan.source_topics) > 1
    topics = {"left": "left-half", "right": "right"} if is_join else {"left": "left"}
    with scratch(state) as directory:
        environment = TaskEnvironment(
            app=app.id,
            layout=Layout.of(plan, dict.fromkeys(plan.source_topics, 1)),
            broker=RenamedTopics(log, topics),
            state_dir=directory,
            policies=Policies.of(app.id, app.config),
            lineage=directory.name,
            caching=not arguments.every_update,
            durable=False,
            new_topic=TopicConfig(partitions=1),
        )
        records, seconds = run_batches(
            environment, arguments.records, BATCH // 2 if is_join else BATCH, profile=arguments.profile
        )
        close_environments(directory)
    return records / seconds


class RenamedTopics:
    """A log that reads other topics than requested, so that joins read half of the records on each side."""

    def __init__(self, log: EmbeddedLog, topics: dict[str, str]) -> None:
        self._log = log
        self._topics = topics

    def read(self, topic: str, *arguments: Any) -> Any:
        return self._log.read(self._topics[topic], *arguments)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)


def run_batches(environment: TaskEnvironment, records: int, step: int, *, profile: bool) -> tuple[int, float]:
    """Run all batches; return the records and CPU seconds of those that count."""
    topics, names = environment.layout.plan.source_topics, task_names(environment.layout)
    progress, counted, seconds = Progress(), 0, 0.0
    profiler = cProfile.Profile()
    for number, start in enumerate(range(0, records // len(topics), step), 1):
        plan = Batch(number=number, wall_time=0, ranges=tuple(Range(topic, 0, start, start + step) for topic in topics))
        batch_start = time.process_time()
        reports = (
            profiler.runcall(run_batch, environment, plan, progress.versions)
            if profile
            else run_batch(environment, plan, progress.versions)
        )
        if number > 1 and all(report.measured is None for report in reports):
            seconds += time.process_time() - batch_start
            counted += step * len(topics)
        progress = progress_after(progress, plan, names, reports)
    if profile:
        pstats.Stats(profiler).sort_stats("tottime").print_stats(18)
    return counted, seconds


@contextmanager
def scratch(parent: Path | None = None) -> Iterator[Path]:
    """Provide a temporary directory."""
    if parent is not None:
        parent.mkdir(exist_ok=True)
    path = Path(tempfile.mkdtemp(prefix="operators-", dir=parent))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


if __name__ == "__main__":
    main()
