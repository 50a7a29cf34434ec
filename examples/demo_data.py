"""Data for the demo, without end: rides, trades and clicks as of now, some of them late, a few of them poisoned."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import msgspec

from examples.click_stream import Click, Profile, Search
from examples.playing import Sent
from examples.stock_market import Trade
from examples.taxi_rides import TaxiRide

TOPICS = ("rides", "trades", "user-profiles", "searches", "clicks")
_CITIES = ("Oslo", "Rome", "Lima", "Kyiv")
_WORDS = ("boots", "lamp", "kettle", "scarf")
_SYMBOLS = ("ACME", "BOLT", "CORN", "DUSK", "EDGE", "FERN", "GALE", "HILL")
_USERS = 40
_LATE_MS = 300_000
_POISON = (b'{"ride_id": "r', b'{"price": "none"}', b"\xff\xfe not text", b'{"page": 17}')


def records(seed: int) -> Iterator[Sent]:
    """Yield records with keys and values as bytes; one in 200 is late, one in 1,000 cannot be read."""
    pick = random.Random(seed)
    for user in range(_USERS):
        yield _sent("user-profiles", f"u{user}", Profile(f"User {user}", pick.choice(_CITIES)), _now())
    prices = {symbol: pick.uniform(20, 200) for symbol in _SYMBOLS}
    number = 0
    while True:
        number += 1
        at = _now() - (_LATE_MS if pick.random() < 0.005 else pick.randrange(200))
        if pick.random() < 0.001:
            yield Sent(pick.choice(("rides", "trades", "clicks")), b"poison", pick.choice(_POISON), at)
            continue
        kind = pick.choices(("ride", "visit", "trade"), (85, 12, 3))[0]
        if kind == "ride":
            yield _ride(pick, number, at)
        elif kind == "trade":
            symbol = pick.choice(_SYMBOLS)
            prices[symbol] *= pick.uniform(0.995, 1.005)
            yield _sent("trades", symbol, Trade(round(prices[symbol], 2), pick.randrange(1, 500)), at)
        else:
            yield from _visit(pick, at)


def _ride(pick: random.Random, number: int, at: int) -> Sent:
    amount = round(pick.lognormvariate(3.0, 0.6), 2)
    pickup = datetime.fromtimestamp(at / 1000, UTC)
    ride = TaxiRide(f"r{number:07}", pick.choice((1, 1, 2)), pickup, amount, pick.randrange(1, 266))
    return _sent("rides", ride.ride_id, ride, at)


def _visit(pick: random.Random, at: int) -> Iterator[Sent]:
    visitor, word = f"u{pick.randrange(_USERS + 5)}", pick.choice(_WORDS)
    if pick.random() < 0.4:
        yield _sent("searches", visitor, Search(word), at - 300)
    yield _sent("clicks", visitor, Click(f"/{word}"), at)
    if pick.random() < 0.02:
        yield _sent("user-profiles", visitor, Profile(f"User {visitor[1:]}", pick.choice(_CITIES)), at)


def _sent(topic: str, key: str, value: Any, at: int) -> Sent:
    return Sent(topic, key.encode(), msgspec.json.encode(value), at)


def _now() -> int:
    return time.time_ns() // 1_000_000
