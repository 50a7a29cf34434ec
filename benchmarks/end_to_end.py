"""The latency from appending a record to its result in the output topic, by execution mode, at a steady rate.

JSON taxi rides → amount > 1 → re-key by zone → one-minute tumbling count → out: every update, exactly once, every
commit synced. The timestamp of a record is taken before it is appended, and compared with the clock when a reader of
the output receives the result. The first seconds, in which workers start, are not counted.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import msgspec

from millstream import App, Config, tumbling
from millstream.batch.report import BatchReport
from millstream.batch.trigger import TriggerMode
from millstream.broker import Broker, Output, TopicConfig
from millstream.foundation.blocks import block_of
from millstream.records import TopicPartition
from millstream.spark.run import stop_spark

PARTITIONS = 2
ZONES = 265
FEED_INTERVAL_SECONDS = 0.002
WARM_UP_SECONDS = 5.0


class Ride(msgspec.Struct):
    """A taxi ride."""

    zone: int
    amount: float


app = App("end-to-end")
(
    app.stream("rides", value=Ride)
    .filter(lambda ride: ride.amount > 1.0)
    .group_by(lambda ride: ride.zone)
    .windowed_by(tumbling("1 min", grace="1 min"))
    .count(name="zones")
    .to_stream(lambda window, _: f"{window.key}/{window.start}")
    .to("zone-counts")
)

MODES: dict[str, tuple[TriggerMode, int]] = {"resident": ("realtime", 2_000), "parallel (forced)": ("auto", 0)}


def feed(broker: Broker, rate: int, stop: threading.Event) -> None:
    """Append rides at a steady rate; the timestamp of each is the time of its append."""
    sent, start = 0, time.monotonic()
    while not stop.wait(FEED_INTERVAL_SECONDS):
        due = int((time.monotonic() - start) * rate) - sent
        rides = [b'{"zone":%d,"amount":5.0}' % (1 + (sent + number) % ZONES) for number in range(due)]
        if due:
            times = [time.time_ns() // 1_000_000] * due
            broker.append([Output("rides", sent // max(1, due) % PARTITIONS, block_of([None] * due, rides, times))])
            sent += due


def latencies(broker: Broker, seconds: float) -> list[float]:
    """Read the output as it arrives and return the latency of each record after the warm-up, in milliseconds."""
    partitions = [TopicPartition("zone-counts", partition) for partition in range(PARTITIONS)]
    positions = dict.fromkeys(partitions, 0)
    measured: list[float] = []
    start = time.monotonic() + WARM_UP_SECONDS
    while time.monotonic() < start + seconds:
        broker.wait(positions, 1.0)
        for partition, offsets in zip(partitions, broker.offsets("zone-counts"), strict=True):
            for chunk in broker.read(partition.topic, partition.partition, positions[partition], offsets.end):
                now = time.time_ns() / 1_000_000
                if time.monotonic() >= start:
                    measured += [now - timestamp for timestamp in chunk.block.column(2).to_pylist()]
            positions[partition] = offsets.end
    return measured


def measure(mode: str, rate: int, seconds: float) -> dict[str, Any]:
    """Run the app in one execution mode and return percentiles in milliseconds."""
    trigger, small = MODES[mode]
    app.data_dir = Path(tempfile.mkdtemp(prefix="end-to-end-"))
    app.config = Config(partitions=PARTITIONS, caching=False, small_batch_records=small)
    broker = app.broker
    broker.create_topic("rides", TopicConfig(partitions=PARTITIONS))
    batches: list[BatchReport] = []
    run = app.start(trigger=trigger, on_batch=batches.append)
    broker.append([Output("rides", 0, block_of([None], [b'{"zone":1,"amount":5.0}'], [time.time_ns() // 1_000_000]))])
    partitions = [TopicPartition("zone-counts", partition) for partition in range(PARTITIONS)]
    broker.wait(dict.fromkeys(partitions, 0), 300.0)  # wait until the workers run, so that no backlog builds up
    stop = threading.Event()
    feeder = threading.Thread(target=feed, args=(broker, rate, stop))
    feeder.start()
    try:
        measured = sorted(latencies(broker, seconds))
    finally:
        stop.set()
        feeder.join()
        run.stop()
        run.wait()
        broker.close()
        shutil.rmtree(app.data_dir, ignore_errors=True)
    return {
        "records": len(measured),
        "batches": len(batches),
        **{f"p{level}": round(measured[len(measured) * level // 100], 1) for level in (50, 95, 99)},
    }


def main() -> None:
    """Measure all execution modes and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rate", type=int, default=1_000, help="records per second")
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--mode", choices=MODES, action="append")
    parser.add_argument("--json", type=Path, help="write the results to this file")
    arguments = parser.parse_args()
    try:
        results = {mode: measure(mode, arguments.rate, arguments.seconds) for mode in arguments.mode or MODES}
    finally:
        stop_spark()
    print(f"{'mode':<20}{'records':>10}{'batches':>9}{'p50 ms':>9}{'p95 ms':>9}{'p99 ms':>9}")
    for mode, result in results.items():
        percentiles = "".join(f"{result[f'p{level}']:>9}" for level in (50, 95, 99))
        print(f"{mode:<20}{result['records']:>10,}{result['batches']:>9,}{percentiles}")
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
