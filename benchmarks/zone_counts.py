"""Rides per zone and minute from JSON, exactly once: Millstream beside its peers, in one run.

JSON taxi rides of 85 bytes → amount > 1 → re-key by zone → 1-minute tumbling count with 1 minute of grace → out; once
with every update, once with caching. On the embedded log the peer is plain Structured Streaming, which reads the same
records from files; each side runs in a process of its own, since a JVM that computes must not run with the flags that
we give to one that only schedules. The figure is records per second over all batches but the first two, which start
the workers; the counts of both sides are checked. With ``--broker kafka`` the peers are Kafka Streams and, with
``--all-peers``, others on the same broker, and latency is measured too (benchmarks/peers/compare.py, which takes the
arguments that are not known here).
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from millstream import App, Config, tumbling
from millstream.batch.report import BatchReport
from millstream.broker import Broker, Output, TopicConfig
from millstream.foundation.blocks import block_of
from millstream.records import Windowed

PARTITIONS = 2
BLOCK = 10_000
ZONES = 265
MINUTE = 60_000
FIRST_PICKUP = 1_760_000_000_000 // MINUTE * MINUTE
SIDES = ("millstream, every update", "millstream, caching", "structured streaming")


class Ride(msgspec.Struct):
    """A taxi ride."""

    ride_id: str
    vendor_id: int
    zone: int
    amount: float
    pickup: int


class ZoneCount(msgspec.Struct):
    """Rides of a zone in the minute that begins at ``start``."""

    zone: int
    start: int
    count: int


def zone_count(window: Windowed, count: int) -> tuple[int, ZoneCount]:
    """Return a count as it is written out."""
    return window.key, ZoneCount(window.key, window.start, count)


app = App(
    os.environ.get("ZONE_COUNTS_APP", "zone-counts"),
    config=Config(caching=os.environ.get("ZONE_COUNTS_CACHING", "1") == "1", partitions=PARTITIONS),
)
SOURCE, TARGET = os.environ.get("ZONE_COUNTS_TOPICS", "rides,zone-counts").split(",")
(
    app.stream(SOURCE, value=Ride)
    .filter(lambda ride: ride.amount > 1.0)
    .group_by(lambda ride: ride.zone)
    .windowed_by(tumbling("1 min", grace="1 min"))
    .count(name="zones")
    .to_stream()
    .map(zone_count)
    .to(TARGET)
)


def ride_lines(count: int, seed: int = 7) -> Iterator[bytes]:
    """Yield rides of about 85 bytes, 100 per second of event time."""
    pick = random.Random(seed)
    for number in range(count):
        zone, amount = pick.randrange(1, ZONES + 1), pick.randrange(50, 6_000) / 100
        yield (
            b'{"ride_id":"r%08d","vendor_id":%d,"zone":%d,"amount":%.2f,"pickup":%d}'
            % (number, 1 + number % 2, zone, amount, FIRST_PICKUP + number * 10)
        )


def ride_timestamp(number: int) -> int:
    """Return the event time of the ride with that number."""
    return FIRST_PICKUP + number * 10


def load(broker: Broker, lines: list[bytes], topic: str) -> None:
    """Write rides to a new topic, in turn to its partitions."""
    broker.create_topic(topic, TopicConfig(partitions=PARTITIONS))
    for start in range(0, len(lines), BLOCK):
        outputs = []
        for partition in range(PARTITIONS):
            numbers = range(start + partition, min(start + BLOCK, len(lines)), PARTITIONS)
            block = block_of([None] * len(numbers), [lines[one] for one in numbers], [*map(ride_timestamp, numbers)])
            outputs.append(Output(topic, partition, block))
        broker.append(outputs)


def counted(lines: list[bytes]) -> Counter[tuple[int, int]]:
    """Return the right counts by zone and begin of the minute."""
    rides = map(msgspec.json.Decoder(Ride).decode, lines)
    return Counter((ride.zone, ride.pickup // MINUTE * MINUTE) for ride in rides if ride.amount > 1.0)


AnyCount = TypeVar("AnyCount", bound=ZoneCount)


def counts_out(broker: Broker, topic: str, form: type[AnyCount]) -> Iterator[tuple[int, int, AnyCount]]:
    """Yield partition, offset and count of everything that is in a topic, partition by partition."""
    decode = msgspec.json.Decoder(form).decode
    for partition, there in enumerate(broker.offsets(topic)):
        for chunk in broker.read(topic, partition, there.begin, there.end):
            for offset, value in zip(chunk.offsets, chunk.block.column(1).to_pylist(), strict=True):
                yield partition, offset, decode(value)


def run_millstream(records: int, directory: Path) -> dict[str, Any]:
    """Process the backlog and return the figures."""
    app.data_dir = directory
    lines = list(ride_lines(records))
    load(app.broker, lines, SOURCE)
    expected = counted(lines)
    reports: list[BatchReport] = []
    began = time.perf_counter()
    app.run("caught-up", on_batch=reports.append)
    whole = time.perf_counter() - began
    found = {(one.zone, one.start): one.count for _, _, one in counts_out(app.broker, TARGET, ZoneCount)}
    assert found == expected, "the counts are wrong"
    warm = reports[2:]
    return {
        "records_per_second": sum(report.records_in for report in warm) / sum(report.seconds for report in warm),
        "from_start": records / whole,
        "batches": len(reports),
        "records_out": sum(report.records_out for report in reports),
    }


def run_structured_streaming(records: int, directory: Path) -> dict[str, Any]:
    """Do the same with a Structured Streaming query that reads files."""
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as f

    files = 10
    rides = directory / "rides"
    rides.mkdir()
    lines = list(ride_lines(records))
    for number in range(files):
        part = lines[number * records // files : (number + 1) * records // files]
        (rides / f"{number:04}.json").write_bytes(b"\n".join(part))
    spark = SparkSession.builder.master("local[*]").getOrCreate()
    spark.conf.set("spark.sql.shuffle.partitions", str(PARTITIONS))
    schema = "ride_id string, vendor_id int, zone int, amount double, pickup long"
    counts = (
        spark.readStream.schema(schema)
        .option("maxFilesPerTrigger", 1)
        .json(str(rides))
        .where("amount > 1.0")
        .withColumn("time", f.timestamp_millis("pickup"))
        .withWatermark("time", "1 minute")
        .groupBy(f.window("time", "1 minute"), "zone")
        .agg(f.count("*").alias("count"))
    )
    began = time.perf_counter()
    query = (
        counts.writeStream.outputMode("update")
        .option("checkpointLocation", str(directory / "checkpoint"))
        .foreachBatch(lambda frame, number: frame.write.parquet(str(directory / "out" / str(number))))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    whole = time.perf_counter() - began
    warm = [json.loads(one.json) for one in query.recentProgress if one["numInputRows"] > 0][2:]
    seconds = sum(one["durationMs"]["triggerExecution"] for one in warm) / 1000
    return {
        "records_per_second": sum(one["numInputRows"] for one in warm) / seconds,
        "from_start": records / whole,
        "batches": len(warm) + 2,
    }


@contextmanager
def scratch() -> Iterator[Path]:
    """A directory for one side, gone afterwards."""
    path = Path(tempfile.mkdtemp(prefix="zone-counts-"))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def in_own_process(side: str, records: int) -> dict[str, Any]:
    """Run one side in a fresh Python with a fresh JVM and return its figures."""
    with scratch() as directory:
        figures = directory / "figures.json"
        command = [sys.executable, __file__, "--only", side, "--records", str(records), "--json", str(figures)]
        environment = {**os.environ, "ZONE_COUNTS_CACHING": str(int("caching" in side))}
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)
        found: dict[str, Any] = json.loads(figures.read_text())[side]
        return found


def on_kafka(records: int | None, figures: Path | None, others: list[str]) -> None:
    """Do it on a Kafka broker, beside the peers that can be run there."""
    command = [sys.executable, "-m", "benchmarks.peers.compare", *others]
    command += [] if records is None else ["--records", str(records)]
    command += [] if figures is None else ["--json", str(figures.absolute())]
    ended = subprocess.run(command, check=False, cwd=Path(__file__).parents[1])
    sys.exit(ended.returncode)


def show(results: dict[str, dict[str, Any]]) -> None:
    """Print the figures as a table, with the ratios to the peer if it was run."""
    peer = results.get(SIDES[-1], {}).get("records_per_second")
    print(f"{'side':<26}{'records/s':>12}{'from start':>12}{'batches':>9}{'ratio':>7}")
    for side, one in results.items():
        rate = one["records_per_second"]
        ratio = "" if peer is None else f"{rate / peer:.2f}"
        print(f"{side:<26}{rate:>12,.0f}{one['from_start']:>12,.0f}{one['batches']:>9}{ratio:>7}")


def main() -> None:
    """Run all sides and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, help="3 million on the embedded log, 1 million on Kafka")
    parser.add_argument("--only", choices=SIDES)
    parser.add_argument("--broker", choices=["embedded", "kafka"], default="embedded")
    parser.add_argument("--run", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    arguments, others = parser.parse_known_args()
    if others and arguments.broker != "kafka":
        parser.error(f"not known without --broker kafka: {' '.join(others)}")
    records = arguments.records or 3_000_000
    if arguments.run:
        app.run()
        return
    if arguments.broker == "kafka":
        on_kafka(arguments.records, arguments.json, others)
        return
    if arguments.only is None:
        results = {side: in_own_process(side, records) for side in SIDES}
    else:
        with scratch() as directory:
            run_side = run_structured_streaming if arguments.only == SIDES[-1] else run_millstream
            results = {arguments.only: run_side(records, directory)}
    show(results)
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
