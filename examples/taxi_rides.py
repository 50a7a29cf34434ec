"""Taxi rides: trips per vendor, trips per vendor and minute, and rides routed to one of two topics by price.

python -m examples.taxi_rides            runs it on generated rides
python -m examples.taxi_csv              writes a CSV file of rides, or streams one at a chosen rate

millstream run examples/taxi_rides.py
millstream tables scan trips_per_vendor --app taxi-rides
millstream consume rides.high_amount --from-beginning
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import msgspec

from examples.harness import Input, run_example
from millstream import App, tumbling


class TaxiRide(msgspec.Struct):
    """A ride, stored as JSON in the topic."""

    ride_id: str
    vendor_id: int
    pickup_at: datetime
    total_amount: float
    zone: int


app = App("taxi-rides")

rides = app.stream("rides", value=TaxiRide, timestamp=lambda ride: ride.pickup_at)

by_vendor = rides.group_by(lambda ride: ride.vendor_id)
by_vendor.count(name="trips_per_vendor").to_stream().to("trips-per-vendor")
by_vendor.windowed_by(tumbling("1 min", grace="30 s"), late_to="rides.late").count(
    name="trips_per_minute", retention="10 min"
)

(
    rides.split()
    .branch(lambda ride: ride.total_amount >= 40, lambda expensive: expensive.to("rides.high_amount"))
    .default(lambda cheap: cheap.to("rides.low_amount"))
)

_FIRST_PICKUP = datetime(2026, 1, 1, 6, tzinfo=UTC)


def generate_rides(seed: int) -> Iterator[TaxiRide]:
    """Yield rides forever; one in five is 20 seconds late, one in a hundred is three minutes late."""
    rng = random.Random(seed)
    number, clock = 0, _FIRST_PICKUP
    while True:
        number += 1
        clock += timedelta(seconds=rng.expovariate(1.0))
        delay = timedelta(seconds=180 if rng.random() < 0.01 else rng.choice((0, 0, 0, 0, 20)))
        amount = round(rng.lognormvariate(3.0, 0.6), 2)
        yield TaxiRide(f"r{number:07}", rng.choice((1, 1, 2)), clock - delay, amount, rng.randrange(1, 266))


def data(seed: int = 7, rides: int = 1_000) -> Iterator[Input]:
    """Yield rides as input records."""
    for _, ride in zip(range(rides), generate_rides(seed), strict=False):
        yield Input("rides", ride.ride_id, ride, int(ride.pickup_at.timestamp() * 1000))


def show(app: App) -> None:
    """Print trips per vendor, in total and in the last minutes, some expensive rides, and the number of late rides."""
    for vendor, count in sorted(app.tables["trips_per_vendor"].items()):
        last = app.tables["trips_per_minute"].windows(vendor)[-6:-1]  # without the last minute, which is incomplete
        minutes = "  ".join(f"{datetime.fromtimestamp(row.key.start / 1000, UTC):%H:%M} {row.value}" for row in last)
        print(f"\nvendor {vendor}: {count:,} trips; per minute {minutes}")
    print("\nexpensive rides")
    with app.consumer(topics=["rides.high_amount"], value=TaxiRide) as consumer:
        for record in consumer.poll("1 s")[:4]:
            ride = record.value
            print(f"  {ride.ride_id} at {ride.pickup_at:%H:%M:%S} in zone {ride.zone}: {ride.total_amount:.2f}")
    with app.consumer(topics=["rides.late"], value=TaxiRide) as consumer:
        late = consumer.poll("1 s")
    print(
        f"\n{len(late)} rides were too late for their minute and are in rides.late; the trips per vendor include them"
    )


if __name__ == "__main__":
    run_example(app, data(), show)
