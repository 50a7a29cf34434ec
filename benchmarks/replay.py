"""A replay loses no records: a backlog in eight partitions with different speed and skew, counted per minute.

Rides → re-key by zone → one-minute tumbling count with one minute of grace. Partitions hold 1 to 32 shares of the
rides, one of them has rides in the second half of the day only, and all are out of order by up to 20 seconds. An oracle
counts every ride; rides missing from the app's counts were dropped as late, because one partition was read ahead of
another.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from millstream import App, Config, tumbling
from millstream.batch.report import BatchReport
from millstream.broker import Output, TopicConfig
from millstream.foundation.blocks import block_of
from millstream.spark.run import stop_spark

PARTITIONS = 8
SHARES = (1, 2, 4, 8, 16, 32, 1, 2)
DAY_MS = 86_400_000
MINUTE_MS = 60_000
JITTER_MS = 20_000
BLOCK = 10_000
ZONES = 265

app = App("replay", config=Config(partitions=PARTITIONS))
(
    app.stream("rides", value=int)
    .group_by(lambda zone: zone)
    .windowed_by(tumbling("1 min", grace="1 min"))
    .count(name="zones")
    .to_stream(lambda window, _: f"{window.key}/{window.start}")
    .to("zone-counts")
)


def load(records: int, seed: int = 7) -> Counter[str]:
    """Write the rides and return the correct counts."""
    rng = random.Random(seed)
    expected: Counter[str] = Counter()
    broker = app.broker
    broker.create_topic("rides", TopicConfig(partitions=PARTITIONS))
    for partition, share in enumerate(SHARES):
        first = DAY_MS // 2 if partition == 6 else 0
        count = records * share // sum(SHARES)
        times = sorted(rng.randrange(first, DAY_MS) for _ in range(count))
        times = [max(0, timestamp - rng.randrange(JITTER_MS)) for timestamp in times]
        zones = [min(ZONES, int(rng.expovariate(0.02))) for _ in range(count)]
        for start in range(0, count, BLOCK):
            part = slice(start, start + BLOCK)
            values = [b"%d" % zone for zone in zones[part]]
            broker.append([Output("rides", partition, block_of([None] * len(values), values, times[part]))])
        expected.update(
            f"{zone}/{timestamp // MINUTE_MS * MINUTE_MS}" for zone, timestamp in zip(zones, times, strict=True)
        )
    broker.close()
    return expected


def read_counts() -> dict[str, int]:
    """Return the last count of each window in the output."""
    counts: dict[str, int] = {}
    broker = app.broker
    for partition, offsets in enumerate(broker.offsets("zone-counts")):
        for chunk in broker.read("zone-counts", partition, offsets.begin, offsets.end):
            for key, value in zip(chunk.block.column(0).to_pylist(), chunk.block.column(1).to_pylist(), strict=True):
                counts[key.decode()] = int(value)
    broker.close()
    return counts


def measure(records: int) -> dict[str, Any]:
    """Replay the backlog and compare the counts with the oracle."""
    expected = load(records)
    reports: list[BatchReport] = []
    start = time.perf_counter()
    app.run("caught-up", on_batch=reports.append)
    seconds = time.perf_counter() - start
    counts = read_counts()
    return {
        "records": expected.total(),
        "counted": sum(counts.values()),
        "windows that differ": sum(1 for key in expected.keys() | counts.keys() if expected[key] != counts.get(key, 0)),
        "late": sum(report.late for report in reports),
        "batches": len(reports),
        "seconds": round(seconds, 1),
    }


def main() -> None:
    """Run the benchmark and print one line per result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--batch", type=int, default=50_000, help="maximum number of records per batch")
    parser.add_argument("--json", type=Path, help="write the results to this file")
    arguments = parser.parse_args()
    app.data_dir = Path(tempfile.mkdtemp(prefix="replay-"))
    app.config = Config(partitions=PARTITIONS, max_batch_records=arguments.batch)
    try:
        results = measure(arguments.records)
    finally:
        stop_spark()
        shutil.rmtree(app.data_dir, ignore_errors=True)
    for name, value in results.items():
        print(f"{name:<22}{value:>12,}")
    print(f"{'lost':<22}{1 - results['counted'] / results['records']:>12.2%}")
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
