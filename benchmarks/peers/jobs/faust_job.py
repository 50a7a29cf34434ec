"""Rides per zone and minute with faust-streaming, at least once; run with ``worker`` in two processes, state in memory.

faust-streaming has no grace period: a window accepts late rides until it expires, here after its minute and the grace.
"""

from __future__ import annotations

import os
from typing import Any

import faust

MINUTE = 60_000
settings = os.environ
app = faust.App(
    settings["GROUP"],
    broker=f"kafka://{settings['BOOTSTRAP']}",
    store="memory://",
    key_serializer="json",  # by default keys must be bytes
    topic_partitions=2,
    producer_linger=0.02,  # the default of 0 sends each record separately, which is slower
    consumer_auto_offset_reset="earliest",
    datadir=settings["STATE_DIR"],
    web_enabled=False,
)


class Ride(faust.Record):
    """A taxi ride."""

    ride_id: str
    vendor_id: int
    zone: int
    amount: float
    pickup: float  # in milliseconds, like the window sizes


rides = app.topic(settings["SOURCE"], value_type=Ride)
target = app.topic(settings["TARGET"], key_serializer="json", value_serializer="json")
windows = app.Table("zones", default=int, partitions=2)
counts = windows.tumbling(MINUTE, expires=MINUTE + int(settings["GRACE_MS"])).relative_to_field(Ride.pickup)


@app.agent(rides)
async def count(stream: Any) -> None:
    """Count rides."""
    billed = stream.filter(lambda ride: ride.amount > 1.0)
    # without its own name, another app would use the same repartition topic
    async for ride in billed.group_by(Ride.zone, name=settings["GROUP"]):
        counts[ride.zone] += 1
        start = int(ride.pickup // MINUTE * MINUTE)
        await target.send(key=ride.zone, value={"zone": ride.zone, "start": start, "count": counts[ride.zone].value()})


if __name__ == "__main__":
    app.main()
