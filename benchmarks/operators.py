"""Records per second of each family of operators: the task runner alone, one partition, one core, no Spark.

Typed JSON values of about 60 bytes, 10,000 keys, a record each millisecond of event time, batches of 50,000. The
figure is records per second of processor time, from reading the log to the outbox in it, so that other work on the
machine counts little; the first batch, which finds no state, is left out. Best of several rounds.
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
from millstream.batch.batch import Batch, Progress, advanced
from millstream.batch.execute import run_here, task_names
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
    """Five steps without state, of which one drops a tenth."""
    (
        app.stream("left", value=Trade)
        .filter(lambda trade: trade.shares > 10)
        .map_values(lambda trade: trade.price * trade.shares)
        .filter_not(lambda worth: worth < 0)
        .map_values(lambda worth: round(worth, 2))
        .map(lambda key, worth: (key, worth))
        .to("out")
    )


def join_tables(app: App, **options: Any) -> None:
    """Changes of two tables, half of them on either side."""
    left, right = app.table("left", value=Trade), app.table("right", value=Trade)
    left.join(right, lambda one, other: one.price + other.price, **options).to_stream().to("out")


def windowed(windows: Any) -> Callable[[App], None]:
    """Count by key and window."""

    def define(app: App) -> None:
        app.stream("left", value=Trade).group_by_key().windowed_by(windows).count(name="counts").to_stream().to("out")

    return define


def several(app: App) -> None:
    """Four ready aggregations at once."""
    (
        app.stream("left", value=Trade)
        .group_by_key()
        .agg(low=min_of("price"), high=max_of("price"), mean=mean_of("price"), n=count_of(), name="stats")
        .to_stream()
        .to("out")
    )


FAMILIES: dict[str, tuple[Callable[[App], None], int | None]] = {
    "stateless chain of 5": (chain, 600_000),
    "count": (
        lambda app: app.stream("left", value=Trade).group_by_key().count(name="counts").to_stream().to("out"),
        400_000,
    ),
    "four aggregations at once": (several, None),
    "tumbling count": (windowed(tumbling("1 min", grace="10 s")), 300_000),
    "hopping count, 5 windows": (windowed(hopping("50 s", every="10 s", grace="10 s")), 80_000),
    "sliding count": (windowed(sliding("10 s", grace="10 s")), 60_000),
    "session count": (windowed(session(gap="5 s", grace="10 s")), 150_000),
    "stream-table join": (
        lambda app: (
            app.stream("left", value=Trade)
            .join(app.table("right", value=Trade), lambda one, other: one.price + other.price)
            .to("out")
        ),
        300_000,
    ),
    "stream-stream join": (
        lambda app: (
            app.stream("left", value=Trade)
            .join(
                app.stream("right", value=Trade), lambda one, other: one.price + other.price, within=join_window("5 s")
            )
            .to("out")
        ),
        120_000,
    ),
    "table-table join": (join_tables, 150_000),
    "foreign-key join": (lambda app: join_tables(app, on=lambda trade: f"k{trade.account:05}"), 80_000),
}
"""What a family does, and the target in records per second."""


def main() -> None:
    """Measure the families and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=400_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", help="only families whose name contains this")
    parser.add_argument("--every-update", action="store_true", help="pass on each update: caching off")
    parser.add_argument("--profile", action="store_true", help="show where the time goes, instead of how much it is")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    arguments = parser.parse_args()
    found: dict[str, float] = {}
    with scratch() as directory, EmbeddedLog(directory / "log", durability="os") as log:
        load(log, arguments.records)
        print(f"{'family':<28}{'records/s':>12}{'target':>12}")
        for name, (define, target) in FAMILIES.items():
            if arguments.only is None or arguments.only in name:
                rounds = [measured(log, define, arguments, directory / "state") for _ in range(arguments.rounds)]
                found[name] = max(rounds)
                goal = "" if target is None else f"{target:,}"
                print(f"{name:<28}{found[name]:>12,.0f}{goal:>12}", flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps(found, indent=2))


def load(log: EmbeddedLog, records: int, seed: int = 7) -> None:
    """Write trades to two topics, by turns, so that joins have equally many on both sides."""
    pick = random.Random(seed)
    for topic in ("left", "right"):
        log.create_topic(topic, TopicConfig(partitions=1))
        log.create_topic(f"{topic}-half", TopicConfig(partitions=1))
    columns = [
        (
            b"k%05d" % pick.randrange(KEYS),
            b'{"symbol":"S%03d","price":%.2f,"shares":%d,"account":%d}'
            % (pick.randrange(500), pick.randrange(100, 50_000) / 100, pick.randrange(1, 100), pick.randrange(KEYS)),
            FIRST + number,
        )
        for number in range(records)
    ]
    for topic, share in (("left", columns), ("left-half", columns[::2]), ("right", columns[1::2])):
        for start in range(0, len(share), BLOCK):
            keys, values, times = zip(*share[start : start + BLOCK], strict=True)
            log.append([Output(topic, 0, block_of(list(keys), list(values), list(times)))])


def measured(log: EmbeddedLog, define: Callable[[App], None], arguments: argparse.Namespace, state: Path) -> float:
    """Return the records per second of processor time of a topology over all records, but for the first batch."""
    app = App("operators")
    define(app)
    plan = app.plan
    joins = len(plan.source_topics) > 1
    topics = {"left": "left-half", "right": "right"} if joins else {"left": "left"}
    with scratch(state) as directory:
        site = TaskEnvironment(
            app=app.id,
            layout=Layout.of(plan, dict.fromkeys(plan.source_topics, 1)),
            broker=Renamed(log, topics),
            state_dir=directory,
            policies=Policies.of(app.id, app.config),
            lineage=directory.name,
            caching=not arguments.every_update,
            durable=False,
            new_topic=TopicConfig(partitions=1),
        )
        spent = run(site, arguments.records, BATCH // 2 if joins else BATCH, profile=arguments.profile)
        close_environments(directory)
    records: int = arguments.records
    return (records - BATCH) / spent


class Renamed:
    """The log with other names for the topics that are read, so that joins read half of the records on each side."""

    def __init__(self, log: EmbeddedLog, topics: dict[str, str]) -> None:
        self._log = log
        self._topics = topics

    def read(self, topic: str, *arguments: Any) -> Any:
        return self._log.read(self._topics[topic], *arguments)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)


def run(site: TaskEnvironment, records: int, step: int, *, profile: bool) -> float:
    """Run all batches and return the processor seconds of all but the first."""
    topics, names, progress, spent = site.layout.plan.source_topics, task_names(site.layout), Progress(), 0.0
    profiler = cProfile.Profile()
    for number, start in enumerate(range(0, records // len(topics), step), 1):
        plan = Batch(number=number, wall_time=0, ranges=tuple(Range(topic, 0, start, start + step) for topic in topics))
        began = time.process_time()
        reports = (
            profiler.runcall(run_here, site, plan, progress.versions)
            if profile
            else run_here(site, plan, progress.versions)
        )
        if number > 1:
            spent += time.process_time() - began
        progress = advanced(progress, plan, names, reports)
    if profile:
        pstats.Stats(profiler).sort_stats("tottime").print_stats(18)
    return spent


@contextmanager
def scratch(parent: Path | None = None) -> Iterator[Path]:
    """A directory that is gone afterwards."""
    if parent is not None:
        parent.mkdir(exist_ok=True)
    path = Path(tempfile.mkdtemp(prefix="operators-", dir=parent))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


if __name__ == "__main__":
    main()
