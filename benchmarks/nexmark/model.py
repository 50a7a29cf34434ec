"""The events of Nexmark, an online auction: people register, put items up for auction, and bid.

The model is the published one: of 50 events one is a person, three are auctions and 46 are bids; half of the bids are
for the current hot auction, three quarters come from the current hot bidder, and three quarters of the auctions are
from the current hot seller. Each event is one millisecond later than the one before, so that no result depends on the
order of equal timestamps. The same seed gives the same events.
"""

from __future__ import annotations

import random
import string
from collections.abc import Iterator

import msgspec

FIRST_TIME = 1_760_000_000_000
FIRST_ID = 1_000
EVENTS_PER_PERSON = 50
AUCTIONS_PER_PERSON = 3
AUCTIONS_IN_FLIGHT = 100
ACTIVE_PEOPLE = 1_000
HOT_STEP = 100
"""The hot auction, bidder and seller change after this many new ids."""
FIRST_CATEGORY, CATEGORIES = 10, 5
STATES = ("AZ", "CA", "ID", "OR", "WA", "WY")
CITIES = (
    "Phoenix",
    "Los Angeles",
    "San Francisco",
    "Boise",
    "Portland",
    "Bend",
    "Redmond",
    "Seattle",
    "Kent",
    "Cheyenne",
)
FIRST_NAMES = ("Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter", "Walter")
LAST_NAMES = ("Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones", "Noris")
HOT_CHANNELS = ("Google", "Facebook", "Baidu", "Apple")
CHANNELS = 10_000
SIDE_ROWS = 2_000
"""The size of the bounded table that q13 joins with."""


class Person(msgspec.Struct):
    """Someone who sells or bids."""

    id: int
    name: str
    email: str
    card: str
    city: str
    state: str
    time: int
    extra: str


class Auction(msgspec.Struct):
    """An item for sale until it expires."""

    id: int
    item: str
    description: str
    initial_bid: int
    reserve: int
    time: int
    expires: int
    seller: int
    category: int
    extra: str


class Bid(msgspec.Struct):
    """An offer for an item."""

    auction: int
    bidder: int
    price: int
    channel: str
    url: str
    time: int
    extra: str


Event = Person | Auction | Bid


def events(count: int, seed: int = 7) -> Iterator[Event]:
    """Yield events in order of time."""
    return Generator(seed).events(count)


class Generator:
    """A stream of random events; people and auctions that exist already are what later events refer to."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)
        self._people = 0
        self._auctions = 0

    def events(self, count: int) -> Iterator[Event]:
        """Yield events in order of time."""
        for number in range(count):
            rest, time = number % EVENTS_PER_PERSON, FIRST_TIME + number
            if rest == 0:
                yield self._person(time)
            elif rest <= AUCTIONS_PER_PERSON:
                yield self._auction(time)
            else:
                yield self._bid(time)

    def _person(self, time: int) -> Person:
        rng, self._people = self._rng, self._people + 1
        first, last = rng.choice(FIRST_NAMES), rng.choice(LAST_NAMES)
        return Person(
            FIRST_ID + self._people - 1,
            f"{first} {last}",
            f"{first}.{last}@{self._text(5)}.com".lower(),
            " ".join(f"{rng.randrange(10_000):04}" for _ in range(4)),
            rng.choice(CITIES),
            rng.choice(STATES),
            time,
            self._text(60),
        )

    def _auction(self, time: int) -> Auction:
        rng, self._auctions = self._rng, self._auctions + 1
        horizon = AUCTIONS_IN_FLIGHT * EVENTS_PER_PERSON // AUCTIONS_PER_PERSON
        initial = self._price()
        return Auction(
            FIRST_ID + self._auctions - 1,
            self._text(20),
            self._text(100),
            initial,
            initial + self._price(),
            time,
            time + 1 + rng.randrange(2 * horizon),
            self._recent(self._people, ACTIVE_PEOPLE, hot=rng.randrange(4) > 0),
            FIRST_CATEGORY + rng.randrange(CATEGORIES),
            self._text(60),
        )

    def _bid(self, time: int) -> Bid:
        rng = self._rng
        auction = self._recent(self._auctions, AUCTIONS_IN_FLIGHT, hot=rng.randrange(2) > 0)
        bidder = self._recent(self._people, ACTIVE_PEOPLE, hot=rng.randrange(4) > 0)
        path = f"https://www.nexmark.com/{self._text(3)}/{self._text(4)}/{self._text(5)}/item.htm?query=1"
        if rng.randrange(2):
            channel, url = rng.choice(HOT_CHANNELS), path
        else:
            number = rng.randrange(CHANNELS)
            channel, url = f"channel-{number}", f"{path}&channel_id={number}"
        return Bid(auction, bidder, self._price(), channel, url, time, self._text(40))

    def _recent(self, count: int, active: int, *, hot: bool) -> int:
        """Return the id of the hot one, or of one of the last ``active``."""
        if hot:
            return FIRST_ID + (count - 1) // HOT_STEP * HOT_STEP
        return FIRST_ID + self._rng.randrange(max(0, count - active), count)

    def _price(self) -> int:
        return round(10 ** (self._rng.random() * 6) * 100)

    def _text(self, length: int) -> str:
        return "".join(self._rng.choices(string.ascii_lowercase, k=length))


def side_rows() -> Iterator[tuple[int, dict[str, str]]]:
    """Yield keys and values of the bounded table."""
    return ((key, {"value": f"side-{key}"}) for key in range(SIDE_ROWS))
