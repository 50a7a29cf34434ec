"""Data for the demo: endless lines of text and taxi rides, made up from a seed."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from examples.taxi_rides import TaxiRide

_WORDS = [
    "the",
    "mill",
    "turns",
    "while",
    "water",
    "runs",
    "and",
    "the",
    "stream",
    "carries",
    "every",
    "grain",
    "of",
    "truth",
    "to",
    "the",
    "wheel",
    "a",
    "log",
    "remembers",
    "what",
    "happened",
    "a",
    "table",
    "knows",
    "what",
    "is",
    "true",
    "a",
    "window",
    "waits",
    "for",
    "the",
    "late",
]  # easier to read than a list
_FIRST_PICKUP = datetime(2026, 1, 1, 6, tzinfo=UTC)


def lines(seed: int) -> Iterator[str]:
    """Yield lines of a few words each."""
    pick = random.Random(seed)
    while True:
        yield " ".join(pick.choices(_WORDS, k=pick.randrange(3, 9)))


def rides(seed: int) -> Iterator[TaxiRide]:
    """Yield rides, a few of them out of order."""
    pick = random.Random(seed)
    number, clock = 0, _FIRST_PICKUP
    while True:
        number += 1
        clock += timedelta(seconds=pick.expovariate(1.0))
        delay = timedelta(seconds=pick.choice((0, 0, 0, 0, 20)))
        amount = round(pick.lognormvariate(3.0, 0.6), 2)
        yield TaxiRide(f"r{number:07}", pick.choice((1, 1, 2)), clock - delay, amount, pick.randrange(1, 266))
