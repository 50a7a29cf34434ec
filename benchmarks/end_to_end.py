"""How long a record takes from its append to the result in the output topic, by gear, at a steady rate.

JSON taxi rides → amount > 1 → re-key by zone → one-minute tumbling count → out: every update, exactly once, every
commit synced. The time of a record is taken before it is appended, and compared with the clock when a reader that
waits for the output has it. The first seconds, in which workers start, do not count.
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
from millstream.batch.pace import Trigger
from millstream.batch.report import BatchReport
from millstream.broker import Broker, Output, TopicConfig
from millstream.foundation.blocks import block_of
from millstream.records import TopicPartition
from millstream.spark.run import stop_spark

PARTITIONS = 2
ZONES = 265
PULSE_SECONDS = 0.002
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

GEARS: dict[str, tuple[Trigger, int]] = {"real-time": ("realtime", 2_000), "parallel (forced)": ("auto", 0)}


def feed(broker: Broker, rate: int, stop: threading.Event) -> None:
    """Append rides at a steady rate; each has the time of its append as its own."""
    sent, began = 0, time.monotonic()
    while not stop.wait(PULSE_SECONDS):
        due = int((time.monotonic() - began) * rate) - sent
        rides = [b'{"zone":%d,"amount":5.0}' % (1 + (sent + number) % ZONES) for number in range(due)]
        if due:
            times = [time.time_ns() // 1_000_000] * due
            broker.append([Output("rides", sent // max(1, due) % PARTITIONS, block_of([None] * due, rides, times))])
            sent += due


def latencies(broker: Broker, seconds: float) -> list[float]:
    """Read the output as it comes and return the milliseconds that each record took, after the warm-up."""
    places = [TopicPartition("zone-counts", partition) for partition in range(PARTITIONS)]
    positions = dict.fromkeys(places, 0)
    found: list[float] = []
    begin = time.monotonic() + WARM_UP_SECONDS
    while time.monotonic() < begin + seconds:
        broker.wait(positions, 1.0)
        for place, offsets in zip(places, broker.offsets("zone-counts"), strict=True):
            for chunk in broker.read(place.topic, place.partition, positions[place], offsets.end):
                now = time.time_ns() / 1_000_000
                if time.monotonic() >= begin:
                    found += [now - timestamp for timestamp in chunk.block.column(2).to_pylist()]
            positions[place] = offsets.end
    return found


def measure(gear: str, rate: int, seconds: float) -> dict[str, Any]:
    """Run the app in one gear and return percentiles in milliseconds."""
    trigger, small = GEARS[gear]
    app.data_dir = Path(tempfile.mkdtemp(prefix="end-to-end-"))
    app.config = Config(partitions=PARTITIONS, caching=False, small_batch_records=small)
    broker = app.broker
    broker.create_topic("rides", TopicConfig(partitions=PARTITIONS))
    batches: list[BatchReport] = []
    run = app.start(trigger=trigger, on_batch=batches.append)
    broker.append([Output("rides", 0, block_of([None], [b'{"zone":1,"amount":5.0}'], [time.time_ns() // 1_000_000]))])
    places = [TopicPartition("zone-counts", partition) for partition in range(PARTITIONS)]
    broker.wait(dict.fromkeys(places, 0), 300.0)  # no backlog builds up while workers start
    stop = threading.Event()
    feeder = threading.Thread(target=feed, args=(broker, rate, stop))
    feeder.start()
    try:
        found = sorted(latencies(broker, seconds))
    finally:
        stop.set()
        feeder.join()
        run.stop()
        run.wait()
        broker.close()
        shutil.rmtree(app.data_dir, ignore_errors=True)
    return {
        "records": len(found),
        "batches": len(batches),
        **{f"p{level}": round(found[len(found) * level // 100], 1) for level in (50, 95, 99)},
    }


def main() -> None:
    """Run all gears and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rate", type=int, default=1_000, help="records per second")
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--gear", choices=GEARS, action="append")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    arguments = parser.parse_args()
    try:
        results = {gear: measure(gear, arguments.rate, arguments.seconds) for gear in arguments.gear or GEARS}
    finally:
        stop_spark()
    print(f"{'gear':<20}{'records':>10}{'batches':>9}{'p50 ms':>9}{'p95 ms':>9}{'p99 ms':>9}")
    for gear, one in results.items():
        figures = "".join(f"{one[f'p{level}']:>9}" for level in (50, 95, 99))
        print(f"{gear:<20}{one['records']:>10,}{one['batches']:>9,}{figures}")
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
