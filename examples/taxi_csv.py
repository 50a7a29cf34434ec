"""Write a CSV file of taxi rides, or stream one to the topic ``rides`` as JSON at a chosen rate.

python -m examples.taxi_csv make rides.csv --rides 10000
python -m examples.taxi_csv send rides.csv --rate 500
"""

from __future__ import annotations

import argparse
import csv
import time
from collections.abc import Iterator
from datetime import datetime
from itertools import islice
from pathlib import Path

from examples.taxi_rides import TaxiRide, app, generate_rides
from millstream.broker import Broker, TopicConfig

FIELDS = ("ride_id", "vendor_id", "pickup_at", "total_amount", "zone")


def make(path: Path, rides: int, seed: int = 7) -> None:
    """Write generated rides to a CSV file."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(FIELDS)
        for ride in islice(generate_rides(seed), rides):
            writer.writerow([ride.ride_id, ride.vendor_id, ride.pickup_at.isoformat(), ride.total_amount, ride.zone])


def read(path: Path) -> Iterator[TaxiRide]:
    """Yield the rides in a CSV file."""
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            yield TaxiRide(
                row["ride_id"],
                int(row["vendor_id"]),
                datetime.fromisoformat(row["pickup_at"]),
                float(row["total_amount"]),
                int(row["zone"]),
            )


def send(path: Path, rate: int) -> int:
    """Stream the rides in a CSV file, ``rate`` per second, and print each; return their number."""
    _create_topic(app.broker)
    count, start = 0, time.monotonic()
    with app.producer() as producer:
        for count, ride in enumerate(read(path), 1):
            producer.send("rides", ride, key=ride.ride_id)
            print(f"{ride.ride_id}  vendor {ride.vendor_id}  zone {ride.zone:>3}  {ride.total_amount:>7.2f}")
            ahead = start + count / rate - time.monotonic()
            if ahead > 0:
                time.sleep(ahead)
    return count


def _create_topic(broker: Broker) -> None:
    if "rides" not in broker.topic_names():
        broker.create_topic("rides", TopicConfig(partitions=4))
    broker.close()


def main() -> None:
    """Parse the arguments and run the command."""
    parser = argparse.ArgumentParser(prog="python -m examples.taxi_csv", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    maker, sender = commands.add_parser("make"), commands.add_parser("send")
    for command in (maker, sender):
        command.add_argument("file", type=Path)
    maker.add_argument("--rides", type=int, default=10_000)
    sender.add_argument("--rate", type=int, default=500, help="rides per second (default: 500)")
    arguments = parser.parse_args()
    if arguments.command == "make":
        make(arguments.file, arguments.rides)
    else:
        print(f"{send(arguments.file, arguments.rate):,} rides sent to {app.data_dir}")


if __name__ == "__main__":
    main()
