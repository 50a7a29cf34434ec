"""What the queries read: the topics of benchmarks/nexmark/load.py."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from benchmarks.nexmark.model import Auction, Bid, Person

from millstream import App, Stream, Table


def bids(app: App, **options: Any) -> Stream[str, Bid]:
    """Read the bids, which have no key."""
    return app.stream("bid", value=Bid, **options)


def auctions(app: App) -> Table[int, Auction]:
    """Read the auctions by id."""
    return app.table("auction", key=int, value=Auction)


def people(app: App) -> Table[int, Person]:
    """Read the people by id."""
    return app.table("person", key=int, value=Person)


def day_of(bid: Bid) -> str:
    """Return the day of a bid."""
    return datetime.fromtimestamp(bid.time / 1000, UTC).date().isoformat()
