"""Rides per zone and minute from JSON, exactly once: Millstream compared with its peers, in one run.

JSON taxi rides of 85 bytes → amount > 1 → re-key by zone → 1-minute tumbling count with 1 minute of grace → out; once
with every update, once with caching, in Python and in SQL. On the embedded log the peer is plain Structured Streaming,
which reads the same records from files. Each side runs in its own process, because a JVM that computes must not run
with the flags that Millstream sets for a JVM that only schedules. The result is records per second over all batches
except the first two, which start the workers; Millstream's counts are verified. With ``--broker kafka`` the peers are
Kafka Streams and, with ``--all-peers``, others on the same broker, and latency is measured too
(benchmarks/peers/compare.py, which receives the arguments that are unknown here).
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
SIDES = (
    "millstream, every update",
    "millstream, caching",
    "millstream in SQL, every update",
    "millstream in SQL, caching",
    "structured streaming",
)


class Ride(msgspec.Struct):
    """A taxi ride."""

    ride_id: str
    vendor_id: int
    zone: int
    amount: float
    pickup: int


class ZoneCount(msgspec.Struct):
    """Number of rides of a zone in the minute that starts at ``start``."""

    zone: int
    start: int
    count: int


def zone_count(window: Windowed, count: int) -> tuple[int, ZoneCount]:
    """Return a count as a key and an output value."""
    return window.key, ZoneCount(window.key, window.start, count)


app = App(
    os.environ.get("ZONE_COUNTS_APP", "zone-counts"),
    config=Config(
        caching=os.environ.get("ZONE_COUNTS_CACHING", "1") == "1",
        changelogs=os.environ.get("ZONE_COUNTS_CHANGELOGS", "1") == "1",
        guarantee="at_least_once" if os.environ.get("ZONE_COUNTS_GUARANTEE") == "at_least_once" else "exactly_once",
        partitions=int(os.environ.get("ZONE_COUNTS_PARTITIONS", PARTITIONS)),
        master=os.environ.get("ZONE_COUNTS_MASTER"),
        # executors import this module too
        spark={f"spark.executorEnv.{name}": os.environ[name] for name in os.environ if name.startswith("ZONE_COUNTS_")},
    ),
)
SOURCE, TARGET = os.environ.get("ZONE_COUNTS_TOPICS", "rides,zone-counts").split(",")
if os.environ.get("ZONE_COUNTS_SQL") == "1":
    app.sql(f"""
        CREATE STREAM rides (ride_id STRING, vendor_id INT, zone INT, amount DOUBLE, pickup BIGINT)
            WITH (KAFKA_TOPIC = '{SOURCE}', VALUE_FORMAT = 'JSON');
        CREATE TABLE zones WITH (KAFKA_TOPIC = '{TARGET}', VALUE_FORMAT = 'JSON') AS
            SELECT zone AS id, AS_VALUE(zone) AS `zone`, WINDOWSTART AS `start`, COUNT(*) AS `count` FROM rides
            WINDOW TUMBLING (SIZE 1 MINUTE, GRACE PERIOD 1 MINUTE) WHERE amount > 1.0 GROUP BY zone EMIT CHANGES;
    """)
else:
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
    rng = random.Random(seed)
    for number in range(count):
        zone, amount = rng.randrange(1, ZONES + 1), rng.randrange(50, 6_000) / 100
        yield (
            b'{"ride_id":"r%08d","vendor_id":%d,"zone":%d,"amount":%.2f,"pickup":%d}'
            % (number, 1 + number % 2, zone, amount, FIRST_PICKUP + number * 10)
        )


def ride_timestamp(number: int) -> int:
    """Return the event time of a ride."""
    return FIRST_PICKUP + number * 10


def load(broker: Broker, lines: list[bytes], topic: str, partitions: int = PARTITIONS) -> None:
    """Write rides to a new topic, alternating between its partitions."""
    broker.create_topic(topic, TopicConfig(partitions=partitions))
    for start in range(0, len(lines), BLOCK):
        outputs = []
        for partition in range(partitions):
            numbers = range(start + partition, min(start + BLOCK, len(lines)), partitions)
            block = block_of(
                [None] * len(numbers), [lines[number] for number in numbers], [*map(ride_timestamp, numbers)]
            )
            outputs.append(Output(topic, partition, block))
        broker.append(outputs)


def expected_counts(lines: list[bytes]) -> Counter[tuple[int, int]]:
    """Return the correct counts by zone and start of the minute."""
    rides = map(msgspec.json.Decoder(Ride).decode, lines)
    return Counter((ride.zone, ride.pickup // MINUTE * MINUTE) for ride in rides if ride.amount > 1.0)


AnyCount = TypeVar("AnyCount", bound=ZoneCount)


def read_counts(broker: Broker, topic: str, form: type[AnyCount]) -> Iterator[tuple[int, int, AnyCount]]:
    """Yield partition, offset and count of all records in a topic, partition by partition."""
    decode = msgspec.json.Decoder(form).decode
    for partition, offsets in enumerate(broker.offsets(topic)):
        for chunk in broker.read(topic, partition, offsets.begin, offsets.end):
            for offset, value in zip(chunk.offsets, chunk.block.column(1).to_pylist(), strict=True):
                yield partition, offset, decode(value)


def run_millstream(records: int, directory: Path) -> dict[str, Any]:
    """Process the backlog with Millstream and return the results."""
    app.data_dir = directory
    lines = list(ride_lines(records))
    load(app.broker, lines, SOURCE)
    expected = expected_counts(lines)
    reports: list[BatchReport] = []
    start = time.perf_counter()
    app.run("caught-up", on_batch=reports.append)
    seconds = time.perf_counter() - start
    counts = {(count.zone, count.start): count.count for _, _, count in read_counts(app.broker, TARGET, ZoneCount)}
    assert counts == expected, "the counts are wrong"
    warm = reports[2:]
    return {
        "records_per_second": sum(report.records_in for report in warm) / sum(report.seconds for report in warm),
        "from_start": records / seconds,
        "batches": len(reports),
        "records_out": sum(report.records_out for report in reports),
    }


def run_structured_streaming(records: int, directory: Path) -> dict[str, Any]:
    """Process the backlog with a Structured Streaming query that reads files."""
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
    start = time.perf_counter()
    query = (
        counts.writeStream.outputMode("update")
        .option("checkpointLocation", str(directory / "checkpoint"))
        .foreachBatch(lambda frame, number: frame.write.parquet(str(directory / "out" / str(number))))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    seconds = time.perf_counter() - start
    warm = [json.loads(progress.json) for progress in query.recentProgress if progress["numInputRows"] > 0][2:]
    warm_seconds = sum(progress["durationMs"]["triggerExecution"] for progress in warm) / 1000
    return {
        "records_per_second": sum(progress["numInputRows"] for progress in warm) / warm_seconds,
        "from_start": records / seconds,
        "batches": len(warm) + 2,
    }


@contextmanager
def scratch() -> Iterator[Path]:
    """Provide a temporary directory for one side."""
    path = Path(tempfile.mkdtemp(prefix="zone-counts-"))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def in_own_process(side: str, records: int) -> dict[str, Any]:
    """Run one side in a new Python process with a new JVM and return its results."""
    with scratch() as directory:
        path = directory / "results.json"
        command = [sys.executable, __file__, "--here", side, "--records", str(records), "--json", str(path)]
        settings = {"ZONE_COUNTS_CACHING": str(int("caching" in side)), "ZONE_COUNTS_SQL": str(int("SQL" in side))}
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env={**os.environ, **settings})
        results: dict[str, Any] = json.loads(path.read_text())[side]
        return results


def on_kafka(records: int | None, results: Path | None, other_arguments: list[str]) -> None:
    """Compare Millstream with its peers on a Kafka broker."""
    command = [sys.executable, "-m", "benchmarks.peers.compare", *other_arguments]
    command += [] if records is None else ["--records", str(records)]
    command += [] if results is None else ["--json", str(results.absolute())]
    completed = subprocess.run(command, check=False, cwd=Path(__file__).parents[1])
    sys.exit(completed.returncode)


def show(results: dict[str, dict[str, Any]]) -> None:
    """Print the results as a table, with ratios to the peer if it was measured."""
    peer = results.get(SIDES[-1], {}).get("records_per_second")
    print(f"{'side':<34}{'records/s':>12}{'from start':>12}{'batches':>9}{'ratio':>7}")
    for side, result in results.items():
        rate = result["records_per_second"]
        ratio = "" if peer is None else f"{rate / peer:.2f}"
        print(f"{side:<34}{rate:>12,.0f}{result['from_start']:>12,.0f}{result['batches']:>9}{ratio:>7}")


def main() -> None:
    """Measure all sides and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, help="default: 3 million on the embedded log, 1 million on Kafka")
    parser.add_argument("--only", choices=SIDES)
    parser.add_argument("--broker", choices=["embedded", "kafka"], default="embedded")
    parser.add_argument("--here", choices=SIDES, help=argparse.SUPPRESS)
    parser.add_argument("--run", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--json", type=Path, help="write the results to this file")
    arguments, other_arguments = parser.parse_known_args()
    if other_arguments and arguments.broker != "kafka":
        parser.error(f"unrecognized without --broker kafka: {' '.join(other_arguments)}")
    records = arguments.records or 3_000_000
    if arguments.run:
        app.run()
        return
    if arguments.broker == "kafka":
        on_kafka(arguments.records, arguments.json, other_arguments)
        return
    if arguments.here is None:
        sides = SIDES if arguments.only is None else (arguments.only,)
        results = {side: in_own_process(side, records) for side in sides}
    else:
        with scratch() as directory:
            run_side = run_structured_streaming if arguments.here == SIDES[-1] else run_millstream
            results = {arguments.here: run_side(records, directory)}
    show(results)
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
