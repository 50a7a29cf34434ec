"""Zone counts on one Kafka broker: Millstream compared with Kafka Streams and, on request, other peers, in one run.

All sides read the same rides and write to separate topics, one after the other: a backlog, then a steady stream; with
caching and with every update, if a side supports it. Each part prints its line of the table as soon as it is done, and
a part that fails does not prevent the others from running. ``benchmarks/zone_counts.py --broker kafka`` runs this;
``--all-peers`` adds the peers that need their own environments, which are created on first use.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from benchmarks.peers.latency import latency
from benchmarks.peers.running import Side, SideFailedError, Task
from benchmarks.peers.sides import NAMES, SIDES, VARIANTS
from benchmarks.peers.table import head, line
from benchmarks.peers.throughput import Backlog, load_backlog, reading, throughput
from benchmarks.zone_counts import ride_lines

from millstream.kafka import KafkaBroker
from millstream.testing.kafka import Cluster

OURS, THEIRS = DEFAULT_SIDES = ("millstream", "kafka streams")
MEASURES = ("reading", "throughput", "latency")
_KEEP_ALL = {"log.retention.ms": -1}  # rides have old timestamps, and peers create topics without a retention


def compare(records: int, sides: Collection[Side], measures: Collection[str]) -> Iterator[dict[str, Any]]:
    """Run the sides on a new broker and yield the results of each part as soon as it is done."""
    lines = list(ride_lines(records))
    sizes = {records, *(side.records(records) for side in sides)}
    with (
        Cluster(long_running=True, properties=_KEEP_ALL) as cluster,
        KafkaBroker(cluster.url) as broker,
        tempfile.TemporaryDirectory(prefix="zone-counts-", ignore_cleanup_errors=True) as directory,
    ):
        backlogs = {size: load_backlog(broker, lines[:size]) for size in sizes}
        if "reading" in measures:
            yield {"side": OURS, "variant": "-", "measure": "reading", **reading(broker, backlogs[records])}
        parts = [
            (measure, side)
            for variant in VARIANTS
            for measure in measures
            for side in sides
            if side.variant == variant and measure != "reading"
        ]
        for measure, side in parts:
            result = {"side": side.name, "variant": side.variant, "measure": measure, "guarantee": side.guarantee}
            backlog = backlogs[side.records(records)] if measure == "throughput" else None
            try:
                yield result | _measure(cluster, broker, side, backlog, Path(directory))
            except SideFailedError as error:
                yield result | {"failure": str(error)}


def _measure(
    cluster: Cluster, broker: KafkaBroker, side: Side, backlog: Backlog | None, directory: Path
) -> dict[str, Any]:
    """Measure throughput on a backlog, or latency without one."""
    group = f"{side.name}-{side.variant}-{'live' if backlog is None else 'backlog'}".replace(" ", "-")
    source = f"{group}-rides" if backlog is None else backlog.topic
    task = Task(cluster.bootstrap, source, f"{group}-counts", group, directory / group)
    return latency(broker, side, task) if backlog is None else throughput(broker, side, task, backlog)


def verdicts(results: list[dict[str, Any]]) -> Iterator[str]:
    """Yield a comparison with each target for which both sides were measured."""
    by_part = {(result["measure"], result["side"], result["variant"]): result for result in results}
    if result := by_part.get(("reading", OURS, "-")):
        yield f"reading: {result['per_core']:,.0f} records per second of CPU time (target 300,000)"
    for variant, target in zip(VARIANTS, (3.0, 2.5), strict=True):
        for measure, metric in (("throughput", "records_per_second"), ("latency", "p50_ms")):
            ours, theirs = (by_part.get((measure, side, variant), {}).get(metric) for side in (OURS, THEIRS))
            if ours and theirs:
                target_text = f"at least {target}" if measure == "throughput" else "at most 1"
                yield f"{variant}, {metric}: {ours / theirs:.2f} x Kafka Streams (target {target_text})"


def main() -> None:
    """Measure the sides and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=1_000_000, help="size of the backlog; slow sides process fewer")
    parser.add_argument("--side", choices=NAMES, action="append", help=f"default: {' and '.join(DEFAULT_SIDES)}")
    parser.add_argument("--all-peers", action="store_true", help="all sides")
    parser.add_argument("--variant", choices=VARIANTS, action="append")
    parser.add_argument("--measure", choices=MEASURES, action="append")
    parser.add_argument("--json", type=Path, help="write the results to this file")
    arguments = parser.parse_args()
    names = NAMES if arguments.all_peers else arguments.side or DEFAULT_SIDES
    variants = arguments.variant or VARIANTS
    sides = [side for side in SIDES if side.name in names and side.variant in variants]
    print(head(), flush=True)
    results: list[dict[str, Any]] = []
    for result in compare(arguments.records, sides, arguments.measure or MEASURES):
        results.append(result)
        print(line(result), flush=True)
        if arguments.json:
            arguments.json.write_text(json.dumps(results, indent=2))
    for verdict in verdicts(results):
        print(verdict)
    if any("failure" in result for result in results):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
