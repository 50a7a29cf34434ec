"""Rides per zone from JSON, with exactly-once state: Millstream beside plain Structured Streaming, in one run.

JSON taxi rides → amount > 1 → re-key by zone → count per zone → out. Both sides read the same records, from the
embedded log and from files, each in a process of its own: a JVM that computes must not run with the flags that we give
to one that only schedules. The figure is records per second over all batches but the first two, which start the
workers; the counts of both sides are checked.
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
from typing import Any

import msgspec

from millstream import App, Config
from millstream.batch.report import BatchReport
from millstream.blocks import block_of
from millstream.broker import Output, TopicConfig

PARTITIONS = 2
BLOCK = 10_000
ZONES = 265
FIRST_PICKUP = 1_760_000_000_000


class Ride(msgspec.Struct):
    """A taxi ride."""

    ride_id: str
    vendor_id: int
    zone: int
    amount: float
    pickup: int


app = App(
    "zone-counts",
    config=Config(caching=os.environ.get("ZONE_COUNTS_CACHING", "1") == "1", partitions=PARTITIONS),
)
SOURCE, TARGET = os.environ.get("ZONE_COUNTS_TOPICS", "rides,zone-counts").split(",")
(
    app.stream(SOURCE, value=Ride)
    .filter(lambda ride: ride.amount > 1.0)
    .group_by(lambda ride: ride.zone)
    .count(name="zones")
    .to_stream()
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


def load(records: int) -> Counter[int]:
    """Write the rides to the log and return the right counts."""
    expected: Counter[int] = Counter()
    broker = app.broker
    broker.create_topic("rides", TopicConfig(partitions=PARTITIONS))
    lines = list(ride_lines(records))
    for start in range(0, records, BLOCK):
        part = lines[start : start + BLOCK]
        times = [ride_timestamp(number) for number in range(start, start + len(part))]
        broker.append([Output("rides", start // BLOCK % PARTITIONS, block_of([None] * len(part), part, times))])
    for line in lines:
        ride = json.loads(line)
        if ride["amount"] > 1.0:
            expected[ride["zone"]] += 1
    broker.close()
    return expected


def run_millstream(records: int, directory: Path) -> dict[str, Any]:
    """Process the backlog and return the figures."""
    app.data_dir = directory
    expected = load(records)
    reports: list[BatchReport] = []
    began = time.perf_counter()
    app.run("caught-up", on_batch=reports.append)
    whole = time.perf_counter() - began
    found = dict(app.tables["zones"].items())
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
        .groupBy("zone")
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
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        found: dict[str, Any] = json.loads(figures.read_text())[side]
        return found


def beside_kafka_streams(records: int, *, every_update: bool) -> None:
    """Do it on a Kafka broker, beside Kafka Streams."""
    command = [sys.executable, "-m", "benchmarks.peers.kafka_streams", "--records", str(records)]
    command += ["--every-update"] if every_update else []
    subprocess.run(command, check=True, cwd=Path(__file__).parents[1])


def main() -> None:
    """Run both sides and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=3_000_000)
    parser.add_argument("--only", choices=["millstream", "structured streaming"])
    parser.add_argument("--broker", choices=["embedded", "kafka"], default="embedded")
    parser.add_argument("--every-update", action="store_true", help="with Kafka: no caching on either side")
    parser.add_argument("--run", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    arguments = parser.parse_args()
    if arguments.run:
        app.run()
        return
    if arguments.broker == "kafka":
        beside_kafka_streams(arguments.records, every_update=arguments.every_update)
        return
    if arguments.only is None:
        results = {side: in_own_process(side, arguments.records) for side in ("millstream", "structured streaming")}
    else:
        with scratch() as directory:
            run_side = run_millstream if arguments.only == "millstream" else run_structured_streaming
            results = {arguments.only: run_side(arguments.records, directory)}
    print(f"{'side':<22}{'records/s':>12}{'from start':>12}{'batches':>9}")
    for side, figures in results.items():
        print(
            f"{side:<22}{figures['records_per_second']:>12,.0f}{figures['from_start']:>12,.0f}{figures['batches']:>9}"
        )
    if len(results) == 2:
        ratio = results["millstream"]["records_per_second"] / results["structured streaming"]["records_per_second"]
        print(f"ratio {ratio:.2f}")
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
