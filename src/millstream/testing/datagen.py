"""Generate endless sample records, the same for the same seed; a few of them are out of order."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import msgspec

_MAX_DELAY_MS = 15_000


class GeneratedRecord(NamedTuple):
    """A record: its key, its value as plain data, and how many milliseconds late it is."""

    key: str
    value: dict[str, Any]
    delay: int


def _delay(rng: random.Random) -> int:
    return rng.randrange(_MAX_DELAY_MS) if rng.random() < 0.05 else 0


def _rides(rng: random.Random) -> Iterator[GeneratedRecord]:
    number = 0
    while True:
        number += 1
        ride = {
            "ride_id": f"r{number:07}",
            "vendor_id": rng.choice((1, 1, 2)),
            "zone": rng.randrange(1, 266),
            "total_amount": round(rng.lognormvariate(3.0, 0.6), 2),
        }
        yield GeneratedRecord(str(ride["ride_id"]), ride, _delay(rng))


def _trades(rng: random.Random) -> Iterator[GeneratedRecord]:
    prices = {symbol: rng.uniform(20, 200) for symbol in ("ACME", "BOLT", "CORN", "DUSK", "EDGE", "FERN", "GALE")}
    while True:
        symbol = rng.choice(list(prices))
        prices[symbol] *= 1 + rng.gauss(0, 0.003)
        yield GeneratedRecord(symbol, {"price": round(prices[symbol], 2), "shares": rng.randrange(1, 500)}, _delay(rng))


def _clicks(rng: random.Random) -> Iterator[GeneratedRecord]:
    pages = ("/", "/offers", "/cart", "/help", "/checkout")
    while True:
        yield GeneratedRecord(f"u{int(rng.paretovariate(1.1)) % 500}", {"page": rng.choice(pages)}, _delay(rng))


def _orders(rng: random.Random) -> Iterator[GeneratedRecord]:
    items = ("lamp", "kettle", "scarf", "boots", "pen")
    number = 0
    while True:
        number += 1
        order = {"customer": f"c{rng.randrange(200)}", "item": rng.choice(items), "cents": rng.randrange(99, 19_900)}
        yield GeneratedRecord(f"o{number}", order, _delay(rng))


def _sensors(rng: random.Random) -> Iterator[GeneratedRecord]:
    celsius = {f"s{number:02}": rng.uniform(15, 25) for number in range(40)}
    while True:
        sensor = rng.choice(list(celsius))
        celsius[sensor] += rng.gauss(0, 0.2)
        yield GeneratedRecord(sensor, {"celsius": round(celsius[sensor], 2)}, _delay(rng))


KINDS: dict[str, Callable[[random.Random], Iterator[GeneratedRecord]]] = {
    "clicks": _clicks,
    "orders": _orders,
    "rides": _rides,
    "sensors": _sensors,
    "trades": _trades,
}


def generate(kind: str, seed: int) -> Iterator[GeneratedRecord]:
    """Yield endless records of a kind.

    >>> next(generate("clicks", 1)).value
    {'page': '/'}
    """
    return KINDS[kind](random.Random(seed))


def encode_value(record: GeneratedRecord) -> bytes:
    """Return the value as JSON."""
    return msgspec.json.encode(record.value)
