"""Zone counts on one Kafka broker: Millstream beside Kafka Streams (exactly_once_v2), in one run.

Both read the same topic and write to one of their own, one after the other: a backlog, then a steady stream; once with
caching and once with every update out. Each part has its line in the table as soon as it is done, and one that does
not end does not keep the others from running. ``benchmarks/zone_counts.py --broker kafka`` runs this.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.peers.measuring import DidNotEndError, Job, Start, latency, reading, throughput
from benchmarks.zone_counts import counted, load, ride_lines

from millstream.kafka import KafkaBroker
from millstream.testing.kafka import Cluster, java_program, kafka_jars

VARIANTS = ("caching", "every update")
SIDES = ("millstream", "kafka streams")
MEASURES = ("reading", "throughput", "latency")


def compare(records: int, sides: list[str], variants: list[str], measures: list[str]) -> Iterator[dict[str, Any]]:
    """Run the sides on a broker of their own and yield the figures of each part as soon as it is done."""
    lines = list(ride_lines(records))
    expected = counted(lines)
    with Cluster(long_running=True) as cluster, KafkaBroker(cluster.url) as broker, scratch() as directory:
        starts: dict[str, Start] = {
            "millstream": Millstream(cluster),
            "kafka streams": KafkaStreams(cluster, compiled(directory)),
        }
        load(broker, lines)
        if "reading" in measures:
            yield {"side": "millstream", "variant": "-", "measure": "reading", **reading(broker, records)}
        parts = [(variant, side, measure) for variant in variants for measure in measures for side in sides]
        for variant, side, measure in parts:
            job = Job(starts[side], f"{side}-{variant}".replace(" ", "-"), directory, caching=variant == "caching")
            figures: dict[str, Any] = {"side": side, "variant": variant, "measure": measure}
            try:
                if measure == "throughput":
                    yield figures | throughput(broker, job, records, expected)
                elif measure == "latency":
                    yield figures | latency(cluster.bootstrap, broker, job)
            except DidNotEndError as error:
                yield figures | {"failure": str(error)}


class Millstream:
    """Starts our side."""

    def __init__(self, cluster: Cluster) -> None:
        self._url = cluster.url

    def __call__(self, job: Job, source: str, target: str) -> subprocess.Popen[bytes]:
        place = job.place(source)
        environment = {
            **os.environ,
            "MILLSTREAM_BROKER": self._url,
            "MILLSTREAM_DATA_DIR": str(place),
            "ZONE_COUNTS_CACHING": str(int(job.caching)),
            "ZONE_COUNTS_TOPICS": f"{source},{target}",
            "ZONE_COUNTS_APP": place.name,
        }
        program = str(Path(__file__).parents[1] / "zone_counts.py")
        with (place / "log").open("wb") as log:
            return subprocess.Popen([sys.executable, program, "--run"], env=environment, stdout=log, stderr=log)


class KafkaStreams:
    """Starts theirs."""

    def __init__(self, cluster: Cluster, classes: Path) -> None:
        self._bootstrap = cluster.bootstrap
        self._classes = classes

    def __call__(self, job: Job, source: str, target: str) -> subprocess.Popen[bytes]:
        place = job.place(source)
        command = [java_program(), "-Xmx1g", "-cp", f"{self._classes}:{kafka_jars()}/*", "ZoneCounts", self._bootstrap]
        command += [place.name, source, target, "-" if job.caching else "0", str(place)]
        with (place / "log").open("wb") as log:
            return subprocess.Popen(command, stdout=log, stderr=log)


def compiled(directory: Path) -> Path:
    """Compile the Kafka Streams program, with a compiler that needs only a Java runtime."""
    target = directory / "classes"
    path = os.pathsep.join(map(str, kafka_jars().glob("*.jar")))
    compiler = [java_program(), "-cp", path, "org.eclipse.jdt.internal.compiler.batch.Main", "-17", "-nowarn"]
    source = Path(__file__).with_name("ZoneCounts.java")
    subprocess.run([*compiler, "-proc:none", "-cp", path, "-d", str(target), str(source)], check=True)
    return target


@contextmanager
def scratch() -> Iterator[Path]:
    """A directory that is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="zone-counts-", ignore_cleanup_errors=True) as name:
        yield Path(name)


_COLUMNS = {
    "records_per_second": ("records/s", ",.0f"),
    "from_start": ("from start", ",.0f"),
    "processor_seconds": ("cpu s/1M", ".1f"),
    "updates": ("updates", ","),
    "missing": ("missing", ".1%"),
    "p50_ms": ("p50 ms", ".0f"),
    "p95_ms": ("p95 ms", ".0f"),
    "p99_ms": ("p99 ms", ".0f"),
}


def show(figures: dict[str, Any]) -> None:
    """Print a line of the table."""
    name = f"{figures['measure']:<12}{figures['side']:<15}{figures['variant']:<13}"
    if "failure" in figures:
        print(f"{name}  did not end: {figures['failure']}", flush=True)
        return
    cells = [format(figures[name], form) if name in figures else "" for name, (_, form) in _COLUMNS.items()]
    print(name + "".join(f"{cell:>12}" for cell in cells), flush=True)


def verdicts(found: list[dict[str, Any]]) -> Iterator[str]:
    """Yield what the figures say beside the targets, as far as both sides are there."""
    by_part = {(one["measure"], one["side"], one["variant"]): one for one in found if "failure" not in one}
    if one := by_part.get(("reading", "millstream", "-")):
        yield f"reading: {one['per_core']:,.0f} records per second of one core (target 300,000)"
    for variant, target in zip(VARIANTS, (3.0, 2.5), strict=True):
        for measure, figure in (("throughput", "records_per_second"), ("latency", "p50_ms")):
            ours, theirs = (by_part.get((measure, side, variant)) for side in SIDES)
            if ours and theirs:
                ratio = ours[figure] / theirs[figure]
                wanted = f"at least {target}" if measure == "throughput" else "at most 1"
                yield f"{variant}, {figure}: {ratio:.2f} x Kafka Streams (target {wanted})"


def main() -> None:
    """Run both sides and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--side", choices=SIDES, action="append")
    parser.add_argument("--variant", choices=VARIANTS, action="append")
    parser.add_argument("--measure", choices=MEASURES, action="append")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    arguments = parser.parse_args()
    sides, variants = arguments.side or [*SIDES], arguments.variant or [*VARIANTS]
    print(" " * 40 + "".join(f"{name:>12}" for name, _ in _COLUMNS.values()), flush=True)
    found: list[dict[str, Any]] = []
    for figures in compare(arguments.records, sides, variants, arguments.measure or [*MEASURES]):
        found.append(figures)
        show(figures)
        if arguments.json:
            arguments.json.write_text(json.dumps(found, indent=2))
    for verdict in verdicts(found):
        print(verdict)
    if any("failure" in one for one in found):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
