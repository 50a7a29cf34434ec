"""Taxi rides for benchmarks: the same seeded JSON records for every side."""

from __future__ import annotations

import random
from collections.abc import Iterator

ZONES = 265
_START = 1_760_000_000_000


def ride_lines(count: int, seed: int = 7) -> Iterator[bytes]:
    """Yield rides of about 85 bytes, 100 per second of event time."""
    pick = random.Random(seed)
    for number in range(count):
        zone, amount = pick.randrange(1, ZONES + 1), pick.randrange(50, 6_000) / 100
        yield (
            b'{"ride_id":"r%08d","vendor_id":%d,"zone":%d,"amount":%.2f,"pickup":%d}'
            % (number, 1 + number % 2, zone, amount, _START + number * 10)
        )


def ride_timestamp(number: int) -> int:
    """Return the event time of the ride with that number."""
    return _START + number * 10
