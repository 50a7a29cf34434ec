"""A CSV file of taxi rides, and a producer that streams one to the topic ``rides`` as JSON, at a chosen rate.

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

from examples.taxi_rides import TaxiRide, app, made_up
from millstream.broker import Broker, TopicConfig

FIELDS = ("ride_id", "vendor_id", "pickup_at", "total_amount", "zone")


def make(file: Path, rides: int, seed: int = 7) -> None:
    """Write made-up rides."""
    with file.open("w", newline="") as out:
        rows = csv.writer(out)
        rows.writerow(FIELDS)
        for ride in islice(made_up(seed), rides):
            rows.writerow([ride.ride_id, ride.vendor_id, ride.pickup_at.isoformat(), ride.total_amount, ride.zone])


def read(file: Path) -> Iterator[TaxiRide]:
    """Yield the rides of a file."""
    with file.open(newline="") as rows:
        for row in csv.DictReader(rows):
            yield TaxiRide(
                row["ride_id"],
                int(row["vendor_id"]),
                datetime.fromisoformat(row["pickup_at"]),
                float(row["total_amount"]),
                int(row["zone"]),
            )


def send(file: Path, rate: int) -> int:
    """Stream the rides of a file, ``rate`` per second, and print each; return how many they were."""
    _create_topic(app.broker)
    count, begun = 0, time.monotonic()
    with app.producer() as producer:
        for count, ride in enumerate(read(file), 1):
            producer.send("rides", ride, key=ride.ride_id)
            print(f"{ride.ride_id}  vendor {ride.vendor_id}  zone {ride.zone:>3}  {ride.total_amount:>7.2f}")
            ahead = begun + count / rate - time.monotonic()
            if ahead > 0:
                time.sleep(ahead)
    return count


def _create_topic(broker: Broker) -> None:
    if "rides" not in broker.topic_names():
        broker.create_topic("rides", TopicConfig(partitions=4))
    broker.close()


def main() -> None:
    """Parse the arguments."""
    parser = argparse.ArgumentParser(prog="python -m examples.taxi_csv", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    maker, sender = commands.add_parser("make"), commands.add_parser("send")
    for one in (maker, sender):
        one.add_argument("file", type=Path)
    maker.add_argument("--rides", type=int, default=10_000)
    sender.add_argument("--rate", type=int, default=500, help="rides per second (default: 500)")
    arguments = parser.parse_args()
    if arguments.command == "make":
        make(arguments.file, arguments.rides)
    else:
        print(f"{send(arguments.file, arguments.rate):,} rides sent to {app.data_dir}")


if __name__ == "__main__":
    main()
