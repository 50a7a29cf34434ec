"""A replay drops no records as late: skewed partitions give exactly the counts of an oracle."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from tests.assembling import assemble

from millstream import App, Windowed, tumbling
from millstream.batch.assembly import Assembly
from millstream.batch.execute import run_batch
from millstream.batch.journal import Journal
from millstream.batch.loop import LoopOptions
from millstream.batch.planner import BatchSize
from millstream.batch.report import BatchReport
from millstream.broker import Output, TopicConfig
from millstream.foundation.blocks import block_of
from millstream.foundation.storage import close_environments
from millstream.log import EmbeddedLog
from millstream.tables.opening import readers_of

PARTITIONS = 8
SPAN_MS = 3_600_000
MINUTE_MS = 60_000
JITTER_MS = 20_000
ZONES = 50


@pytest.fixture
def chance() -> random.Random:
    seed = int(os.environ.get("MILLSTREAM_SEED", random.randrange(1_000_000)))
    print(f"seed {seed}")
    return random.Random(seed)


def skewed(chance: random.Random) -> Iterator[list[tuple[int, int]]]:
    """Yield the (time, zone) of each partition: an hour of events, from a hundred of them to thousands.

    One partition is quiet for the first half, one for the second, and all are out of order within the grace.
    """
    for partition in range(PARTITIONS):
        count = 100 * 2 ** (partition % 6)
        begin = SPAN_MS // 2 if partition == 3 else 0
        end = SPAN_MS // 2 if partition == 4 else SPAN_MS
        times = sorted(chance.randrange(begin, end) for _ in range(count))
        moved = [max(0, time - chance.randrange(JITTER_MS)) for time in times]
        yield [(time, min(ZONES - 1, int(chance.expovariate(0.1)))) for time in moved]


@pytest.mark.parametrize("batch_records", [300, 2_000])
def test_a_replay_of_skewed_partitions_counts_like_the_oracle(
    log: EmbeddedLog, tmp_path: Path, chance: random.Random, batch_records: int
) -> None:
    log.create_topic("rides", TopicConfig(partitions=PARTITIONS))
    expected: Counter[Windowed] = Counter()
    for partition, events in enumerate(skewed(chance)):
        values: list[bytes | None] = [b"%d" % zone for _, zone in events]
        for start in range(0, len(events), 500):
            part = slice(start, start + 500)
            times = [time for time, _ in events[part]]
            log.append([Output("rides", partition, block_of([None] * len(times), values[part], times))])
        for time, zone in events:
            expected[Windowed(zone, time // MINUTE_MS * MINUTE_MS, (time // MINUTE_MS + 1) * MINUTE_MS)] += 1

    app = App("replay")
    windows = tumbling("1 min", grace="1 min")
    counts = app.stream("rides", value=int).group_by(lambda zone: zone).windowed_by(windows).count(name="zones")
    counts.to_stream(lambda window, _: f"{window.key}/{window.start}").to("out")
    log.create_topic("out", TopicConfig(partitions=1))
    assembly = assemble(app, log, state_dir=str(tmp_path / "state"), durable=False)
    reports: list[BatchReport] = []
    run(assembly, tmp_path, batch_records, reports)

    assert len(reports) > 3, "with fewer batches the partitions could not drift apart"
    assert sum((Counter(report.dropped) for report in reports), Counter()) == {}
    final: Counter[str] = Counter()
    for chunk in log.read("out", 0, 0, log.offsets("out")[0].end):
        for key, value in zip(chunk.block.column(0).to_pylist(), chunk.block.column(1).to_pylist(), strict=True):
            final[key.decode()] = int(value)
    assert final == {f"{window.key}/{window.start}": count for window, count in expected.items()}
    kept = dict(readers_of(assembly.layout, tmp_path / "state")["zones"].items())
    assert kept.items() <= expected.items()
    close_environments(tmp_path)


def run(assembly: Assembly, directory: Path, batch_records: int, reports: list[BatchReport]) -> None:
    planner = assembly.planner(BatchSize(batch_records, 60.0))
    execute = partial(run_batch, assembly.environment())
    options = LoopOptions(on_batch=reports.append)
    assembly.loop(Journal(directory / "journal", durable=False), planner, execute, options).run("caught-up")
