"""Endless data for the demo: rides, trades and clicks with current timestamps, some late and a few malformed."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import msgspec

from examples.click_stream import Click, Profile, Search
from examples.harness import Input
from examples.stock_market import Trade
from examples.taxi_rides import TaxiRide

TOPICS = ("rides", "trades", "user-profiles", "searches", "clicks")
_CITIES = ("Oslo", "Rome", "Lima", "Kyiv")
_WORDS = ("boots", "lamp", "kettle", "scarf")
_SYMBOLS = ("ACME", "BOLT", "CORN", "DUSK", "EDGE", "FERN", "GALE", "HILL")
_USERS = 40
_LATE_MS = 300_000
_MALFORMED = (b'{"ride_id": "r', b'{"price": "none"}', b"\xff\xfe not text", b'{"page": 17}')


def records(seed: int) -> Iterator[Input]:
    """Yield records with keys and values as bytes; one in 200 is late, one in 1,000 cannot be decoded."""
    rng = random.Random(seed)
    for user in range(_USERS):
        yield _input("user-profiles", f"u{user}", Profile(f"User {user}", rng.choice(_CITIES)), _now())
    prices = {symbol: rng.uniform(20, 200) for symbol in _SYMBOLS}
    number = 0
    while True:
        number += 1
        at = _now() - (_LATE_MS if rng.random() < 0.005 else rng.randrange(200))
        if rng.random() < 0.001:
            yield Input(rng.choice(("rides", "trades", "clicks")), b"malformed", rng.choice(_MALFORMED), at)
            continue
        kind = rng.choices(("ride", "visit", "trade"), (85, 12, 3))[0]
        if kind == "ride":
            yield _ride(rng, number, at)
        elif kind == "trade":
            symbol = rng.choice(_SYMBOLS)
            prices[symbol] *= rng.uniform(0.995, 1.005)
            yield _input("trades", symbol, Trade(round(prices[symbol], 2), rng.randrange(1, 500)), at)
        else:
            yield from _visit(rng, at)


def _ride(rng: random.Random, number: int, at: int) -> Input:
    amount = round(rng.lognormvariate(3.0, 0.6), 2)
    pickup = datetime.fromtimestamp(at / 1000, UTC)
    ride = TaxiRide(f"r{number:07}", rng.choice((1, 1, 2)), pickup, amount, rng.randrange(1, 266))
    return _input("rides", ride.ride_id, ride, at)


def _visit(rng: random.Random, at: int) -> Iterator[Input]:
    visitor, word = f"u{rng.randrange(_USERS + 5)}", rng.choice(_WORDS)
    if rng.random() < 0.4:
        yield _input("searches", visitor, Search(word), at - 300)
    yield _input("clicks", visitor, Click(f"/{word}"), at)
    if rng.random() < 0.02:
        yield _input("user-profiles", visitor, Profile(f"User {visitor[1:]}", rng.choice(_CITIES)), at)


def _input(topic: str, key: str, value: Any, at: int) -> Input:
    return Input(topic, key.encode(), msgspec.json.encode(value), at)


def _now() -> int:
    return time.time_ns() // 1_000_000
