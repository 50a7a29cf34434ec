"""Rides per zone and minute with Bytewax, without recovery; run with ``python -m bytewax.run`` in two processes.

Bytewax's ``count_window`` emits a count only when a window closes, so a custom window logic emits every update.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import bytewax.operators as op
from bytewax.connectors.kafka import KafkaSinkMessage
from bytewax.connectors.kafka import operators as kafka
from bytewax.dataflow import Dataflow
from bytewax.operators import windowing

MINUTE = 60_000
settings = os.environ
brokers = [settings["BOOTSTRAP"]]


class EveryCount(windowing.WindowLogic):
    """Emits the start of the window and its count after each ride."""

    def __init__(self, count: int | None) -> None:
        self._count = count or 0

    def on_value(self, value: dict[str, Any]) -> Iterable[tuple[int, int]]:
        """Count a ride."""
        self._count += 1
        return ((value["pickup"] // MINUTE * MINUTE, self._count),)

    def on_merge(self, _original: object) -> Iterable[tuple[int, int]]:
        """Do nothing: tumbling windows are not merged."""
        return ()

    def on_close(self) -> Iterable[tuple[int, int]]:
        """Do nothing: the last count was already emitted."""
        return ()

    def snapshot(self) -> int:
        """Return the state for recovery."""
        return self._count


def pickup(ride: dict[str, Any]) -> datetime:
    """Return the event time of a ride."""
    return datetime.fromtimestamp(ride["pickup"] / 1000, UTC)


def message(window_count: tuple[str, tuple[int, tuple[int, int]]]) -> Any:
    """Return a count as an output message."""
    zone, (_, (start, count)) = window_count
    value = {"zone": int(zone), "start": start, "count": count}
    return KafkaSinkMessage(zone.encode(), json.dumps(value).encode())


flow = Dataflow("zone_counts")
lines = kafka.input("rides", flow, brokers=brokers, topics=[settings["SOURCE"]])
rides = op.map("decode", lines.oks, lambda line: json.loads(line.value))
rides = op.filter("amount above 1", rides, lambda ride: ride["amount"] > 1.0)
by_zone = op.key_on("by zone", rides, lambda ride: str(ride["zone"]))
clock = windowing.EventClock(pickup, wait_for_system_duration=timedelta(milliseconds=int(settings["GRACE_MS"])))
windower = windowing.TumblingWindower(align_to=datetime(2020, 1, 1, tzinfo=UTC), length=timedelta(minutes=1))
counts = windowing.window("count", by_zone, clock, windower, EveryCount, ordered=False)
kafka.output("counts", op.map("encode", counts.down, message), brokers=brokers, topic=settings["TARGET"])
