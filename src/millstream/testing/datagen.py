"""Made-up records of kinds that people know, without end and the same for the same seed; a few come out of order."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import msgspec

_LATE_MS = 15_000


class Made(NamedTuple):
    """A record: its key, its value as plain data, and how much earlier than now it happened, in milliseconds."""

    key: str
    value: dict[str, Any]
    late: int


def _late(pick: random.Random) -> int:
    return pick.randrange(_LATE_MS) if pick.random() < 0.05 else 0


def _rides(pick: random.Random) -> Iterator[Made]:
    number = 0
    while True:
        number += 1
        ride = {
            "ride_id": f"r{number:07}",
            "vendor_id": pick.choice((1, 1, 2)),
            "zone": pick.randrange(1, 266),
            "total_amount": round(pick.lognormvariate(3.0, 0.6), 2),
        }
        yield Made(str(ride["ride_id"]), ride, _late(pick))


def _trades(pick: random.Random) -> Iterator[Made]:
    prices = {symbol: pick.uniform(20, 200) for symbol in ("ACME", "BOLT", "CORN", "DUSK", "EDGE", "FERN", "GALE")}
    while True:
        symbol = pick.choice(list(prices))
        prices[symbol] *= 1 + pick.gauss(0, 0.003)
        yield Made(symbol, {"price": round(prices[symbol], 2), "shares": pick.randrange(1, 500)}, _late(pick))


def _clicks(pick: random.Random) -> Iterator[Made]:
    pages = ("/", "/offers", "/cart", "/help", "/checkout")
    while True:
        yield Made(f"u{int(pick.paretovariate(1.1)) % 500}", {"page": pick.choice(pages)}, _late(pick))


def _orders(pick: random.Random) -> Iterator[Made]:
    items = ("lamp", "kettle", "scarf", "boots", "pen")
    number = 0
    while True:
        number += 1
        order = {"customer": f"c{pick.randrange(200)}", "item": pick.choice(items), "cents": pick.randrange(99, 19_900)}
        yield Made(f"o{number}", order, _late(pick))


def _sensors(pick: random.Random) -> Iterator[Made]:
    warmth = {f"s{number:02}": pick.uniform(15, 25) for number in range(40)}
    while True:
        sensor = pick.choice(list(warmth))
        warmth[sensor] += pick.gauss(0, 0.2)
        yield Made(sensor, {"celsius": round(warmth[sensor], 2)}, _late(pick))


KINDS: dict[str, Callable[[random.Random], Iterator[Made]]] = {
    "clicks": _clicks,
    "orders": _orders,
    "rides": _rides,
    "sensors": _sensors,
    "trades": _trades,
}


def made_up(kind: str, seed: int) -> Iterator[Made]:
    """Yield records of a kind, without end.

    >>> next(made_up("clicks", 1)).value
    {'page': '/'}
    """
    return KINDS[kind](random.Random(seed))


def as_json(made: Made) -> bytes:
    """Return the value as it stands in a topic."""
    return msgspec.json.encode(made.value)
