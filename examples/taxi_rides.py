"""Taxi rides: trips per vendor, per vendor and minute, and rides sent to one of two topics by their price.

python -m examples.taxi_rides            runs it on made-up rides
python -m examples.taxi_csv              makes a CSV file of rides, and streams one at a chosen rate

millstream run examples/taxi_rides.py
millstream tables scan trips_per_vendor --app taxi-rides
millstream consume rides.high_amount --from-beginning
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import msgspec

from examples.playing import Sent, play
from millstream import App, tumbling


class TaxiRide(msgspec.Struct):
    """A ride as it stands in the topic, as JSON."""

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


def made_up(seed: int) -> Iterator[TaxiRide]:
    """Yield rides without end; one in five is told 20 seconds late, one in a hundred three minutes."""
    pick = random.Random(seed)
    number, clock = 0, _FIRST_PICKUP
    while True:
        number += 1
        clock += timedelta(seconds=pick.expovariate(1.0))
        delay = timedelta(seconds=180 if pick.random() < 0.01 else pick.choice((0, 0, 0, 0, 20)))
        amount = round(pick.lognormvariate(3.0, 0.6), 2)
        yield TaxiRide(f"r{number:07}", pick.choice((1, 1, 2)), clock - delay, amount, pick.randrange(1, 266))


def data(seed: int = 7, rides: int = 1_000) -> Iterator[Sent]:
    """Yield some rides."""
    for _, ride in zip(range(rides), made_up(seed), strict=False):
        yield Sent("rides", ride.ride_id, ride, int(ride.pickup_at.timestamp() * 1000))


def show(app: App) -> None:
    """Print trips per vendor, in all and in the last minutes, some expensive rides, and those that came too late."""
    for vendor, count in sorted(app.tables["trips_per_vendor"].items()):
        last = app.tables["trips_per_minute"].windows(vendor)[-6:-1]  # the last minute has only begun
        minutes = "  ".join(f"{datetime.fromtimestamp(row.key.start / 1000, UTC):%H:%M} {row.value}" for row in last)
        print(f"\nvendor {vendor}: {count:,} trips; per minute {minutes}")
    print("\nexpensive rides")
    with app.consumer(topics=["rides.high_amount"], value=TaxiRide) as consumer:
        for record in consumer.poll("1 s")[:4]:
            ride = record.value
            print(f"  {ride.ride_id} at {ride.pickup_at:%H:%M:%S} in zone {ride.zone}: {ride.total_amount:.2f}")
    with app.consumer(topics=["rides.late"], value=TaxiRide) as consumer:
        late = consumer.poll("1 s")
    print(f"\n{len(late)} rides came too late for their minute and went to rides.late; trips per vendor counts them")


if __name__ == "__main__":
    play(app, data(), show)
