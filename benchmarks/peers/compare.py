"""Zone counts on one Kafka broker: Millstream beside Kafka Streams and, if asked for, other peers, in one run.

All read the same rides and write to a topic of their own, one after the other: a backlog, then a steady stream; with
caching and with every update out, as far as a side can do that. Each part has its line in the table as soon as it is
done, and one that does not end does not keep the others from running. ``benchmarks/zone_counts.py --broker kafka``
runs this; ``--all-peers`` adds those that need environments of their own, which are made the first time.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from benchmarks.peers.latency import latency
from benchmarks.peers.running import DidNotEndError, Side, Task
from benchmarks.peers.sides import NAMES, SIDES, VARIANTS
from benchmarks.peers.table import head, line
from benchmarks.peers.throughput import Backlog, loaded, reading, throughput
from benchmarks.zone_counts import ride_lines

from millstream.kafka import KafkaBroker
from millstream.testing.kafka import Cluster

OURS, THEIRS = USUAL = ("millstream", "kafka streams")
MEASURES = ("reading", "throughput", "latency")
_KEEP_ALL = {"log.retention.ms": -1}  # rides are of the past; a topic that a peer makes may not say how long it keeps


def compare(records: int, sides: Collection[Side], measures: Collection[str]) -> Iterator[dict[str, Any]]:
    """Run the sides on a broker of their own and yield the figures of each part as soon as it is done."""
    lines = list(ride_lines(records))
    sizes = {records, *(side.records(records) for side in sides)}
    with (
        Cluster(long_running=True, properties=_KEEP_ALL) as cluster,
        KafkaBroker(cluster.url) as broker,
        tempfile.TemporaryDirectory(prefix="zone-counts-", ignore_cleanup_errors=True) as directory,
    ):
        backlogs = {size: loaded(broker, lines[:size]) for size in sizes}
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
            figures = {"side": side.name, "variant": side.variant, "measure": measure, "guarantee": side.guarantee}
            backlog = backlogs[side.records(records)] if measure == "throughput" else None
            try:
                yield figures | _measured(cluster, broker, side, backlog, Path(directory))
            except DidNotEndError as error:
                yield figures | {"failure": str(error)}


def _measured(
    cluster: Cluster, broker: KafkaBroker, side: Side, backlog: Backlog | None, directory: Path
) -> dict[str, Any]:
    """Measure throughput on a backlog, or latency without one."""
    group = f"{side.name}-{side.variant}-{'live' if backlog is None else 'backlog'}".replace(" ", "-")
    source = f"{group}-rides" if backlog is None else backlog.topic
    task = Task(cluster.bootstrap, source, f"{group}-counts", group, directory / group)
    return latency(broker, side, task) if backlog is None else throughput(broker, side, task, backlog)


def verdicts(found: list[dict[str, Any]]) -> Iterator[str]:
    """Yield what the figures say beside the targets, as far as both sides are there."""
    by_part = {(one["measure"], one["side"], one["variant"]): one for one in found}
    if one := by_part.get(("reading", OURS, "-")):
        yield f"reading: {one['per_core']:,.0f} records per second of one core (target 300,000)"
    for variant, target in zip(VARIANTS, (3.0, 2.5), strict=True):
        for measure, figure in (("throughput", "records_per_second"), ("latency", "p50_ms")):
            ours, theirs = (by_part.get((measure, side, variant), {}).get(figure) for side in (OURS, THEIRS))
            if ours and theirs:
                wanted = f"at least {target}" if measure == "throughput" else "at most 1"
                yield f"{variant}, {figure}: {ours / theirs:.2f} x Kafka Streams (target {wanted})"


def main() -> None:
    """Run the sides and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=1_000_000, help="slow sides take fewer of them")
    parser.add_argument("--side", choices=NAMES, action="append", help=f"{' and '.join(USUAL)} unless told otherwise")
    parser.add_argument("--all-peers", action="store_true", help="all sides")
    parser.add_argument("--variant", choices=VARIANTS, action="append")
    parser.add_argument("--measure", choices=MEASURES, action="append")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    arguments = parser.parse_args()
    names = NAMES if arguments.all_peers else arguments.side or USUAL
    variants = arguments.variant or VARIANTS
    sides = [side for side in SIDES if side.name in names and side.variant in variants]
    print(head(), flush=True)
    found: list[dict[str, Any]] = []
    for figures in compare(arguments.records, sides, arguments.measure or MEASURES):
        found.append(figures)
        print(line(figures), flush=True)
        if arguments.json:
            arguments.json.write_text(json.dumps(found, indent=2))
    for verdict in verdicts(found):
        print(verdict)
    if any("failure" in one for one in found):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
