"""What changelogs cost on a backlog: the zone counts on Kafka with and without them, alternating in one run.

Each run has its own process and app; all of them read the same topic. The result is records per second over all batches
except the first two, which start the workers, and the part of the time that commits, restores and the journal took.
The counts are verified.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.zone_counts import SOURCE, TARGET, ZoneCount, app, expected_counts, load, read_counts, ride_lines

from benchmarks import zone_counts
from millstream.batch.report import BatchReport
from millstream.broker import TopicConfig
from millstream.kafka import KafkaBroker
from millstream.testing.kafka import Cluster

SIDES = ("changelogs", "no changelogs")
_WARM_UP_BATCHES = 2


def run_app() -> None:
    """Process the backlog in this process and print the result as JSON."""
    reports: list[BatchReport] = []
    app.run("caught-up", on_batch=reports.append)
    warm = reports[_WARM_UP_BATCHES:]
    records, seconds = sum(report.records_in for report in warm), sum(report.seconds for report in warm)
    result = {
        "records_per_second": records / seconds,
        "batches": len(reports),
        "publish_share": sum(report.phases.publish for report in warm) / seconds,
        "restore_share": sum(max(task.restore_seconds for task in report.tasks) for report in warm) / seconds,
        "journal_share": sum(report.phases.done + report.phases.plan for report in warm) / seconds,
    }
    print(json.dumps(result))


def run_side(side: str, number: int, url: str, lines: list[bytes]) -> dict[str, Any]:
    """Run one side in a new process, verify its counts and return its result."""
    target = f"{TARGET}-{number}"
    with tempfile.TemporaryDirectory(prefix="changelogs-") as directory, KafkaBroker(url) as broker:
        broker.create_topic(target, TopicConfig(partitions=zone_counts.PARTITIONS))
        environment = {
            **os.environ,
            "MILLSTREAM_BROKER": url,
            "MILLSTREAM_DATA_DIR": directory,
            "ZONE_COUNTS_APP": f"zone-counts-{number}",
            "ZONE_COUNTS_TOPICS": f"{SOURCE},{target}",
            "ZONE_COUNTS_CHANGELOGS": str(int(side == SIDES[0])),
        }
        command = [sys.executable, "-m", "benchmarks.changelogs", "--run"]
        output = subprocess.run(command, check=True, stdout=subprocess.PIPE, env=environment, text=True).stdout
        counts = {(count.zone, count.start): count.count for _, _, count in read_counts(broker, target, ZoneCount)}
        assert counts == expected_counts(lines), f"the counts of {side} are wrong"
    result: dict[str, Any] = json.loads(output.splitlines()[-1])
    return result


def main() -> None:
    """Measure both sides several times and print a table and the ratio of the medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--run", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--json", type=Path, help="write the results to this file")
    arguments = parser.parse_args()
    if arguments.run:
        run_app()
        return
    lines = list(ride_lines(arguments.records))
    results: dict[str, list[dict[str, Any]]] = {side: [] for side in SIDES}
    with Cluster(long_running=True) as cluster, KafkaBroker(cluster.url) as broker:
        load(broker, lines, SOURCE)
        for number in range(arguments.rounds * len(SIDES)):
            side = SIDES[number % len(SIDES)]
            results[side].append(run_side(side, number, cluster.url, lines))
            print(side, {name: round(value, 2) for name, value in results[side][-1].items()}, flush=True)
    medians = {side: statistics.median(run["records_per_second"] for run in runs) for side, runs in results.items()}
    for side, rate in medians.items():
        print(f"{side:<16}{rate:>12,.0f} records/s")
    print(f"ratio {medians[SIDES[0]] / medians[SIDES[1]]:.2f}")
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
