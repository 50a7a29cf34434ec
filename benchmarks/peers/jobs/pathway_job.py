"""Rides per zone and minute with Pathway, without persistence, on two threads (``PATHWAY_THREADS``).

Changes are committed every 0.1 seconds: a new count with a ``diff`` of 1, and the previous count with -1.
"""

from __future__ import annotations

import os

import pathway as pw

settings = os.environ
kafka = {"bootstrap.servers": settings["BOOTSTRAP"], "group.id": settings["GROUP"], "auto.offset.reset": "earliest"}


class Ride(pw.Schema):
    """A taxi ride."""

    ride_id: str
    vendor_id: int
    zone: int
    amount: float
    pickup: int


rides = pw.io.kafka.read(kafka, topic=settings["SOURCE"], schema=Ride, format="json", autocommit_duration_ms=100)
windows = rides.filter(pw.this.amount > 1.0).windowby(
    pw.this.pickup,
    window=pw.temporal.tumbling(duration=60_000),
    instance=pw.this.zone,
    behavior=pw.temporal.common_behavior(cutoff=int(settings["GRACE_MS"])),
)
counts = windows.reduce(zone=pw.this._pw_instance, start=pw.this._pw_window_start, count=pw.reducers.count())
pw.io.kafka.write(counts, kafka, topic_name=settings["TARGET"], format="json")

if __name__ == "__main__":
    pw.run(monitoring_level=pw.MonitoringLevel.NONE)
