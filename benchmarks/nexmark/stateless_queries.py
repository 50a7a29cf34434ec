"""The queries of Nexmark that process each bid on its own; they write to the topic ``out``, q10 to files."""

from __future__ import annotations

import os
import re
from datetime import UTC, datetime
from typing import Any

import msgspec
from benchmarks.nexmark.model import SIDE_ROWS, Bid
from benchmarks.nexmark.sources import bids

from millstream import App
from millstream.connectors.files import Files

DOLLARS_TO_EUROS = 0.908
CHANNEL_IDS = {"apple": "0", "google": "1", "facebook": "2", "baidu": "3"}
CHANNEL_ID = re.compile("(?:&|^)channel_id=([^&]*)")


def q0(app: App) -> None:
    """Pass bids through."""
    bids(app).to("out")


def q1(app: App) -> None:
    """Convert prices."""
    bids(app).map_values(in_euros).to("out")


def in_euros(bid: Bid) -> dict[str, Any]:
    """Return a bid with its price in euros."""
    return {"auction": bid.auction, "bidder": bid.bidder, "price": DOLLARS_TO_EUROS * bid.price, "time": bid.time}


def q2(app: App) -> None:
    """Select the bids for some auctions."""
    few = bids(app).filter(lambda bid: bid.auction % 123 == 0)
    few.map_values(lambda bid: {"auction": bid.auction, "price": bid.price}).to("out")


def q10(app: App) -> None:
    """Write bids to files, with the day and the minute."""
    columns = {"auction": "int64", "bidder": "int64", "price": "int64", "time": "int64"}
    files = Files(os.environ.get("NEXMARK_FILES", "nexmark-files"), columns=columns)
    bids(app).map_values(with_day_and_minute).sink(files, name="files")


def with_day_and_minute(bid: Bid) -> dict[str, Any]:
    """Return a bid with the day and the minute by which files would be arranged."""
    day, minute = datetime.fromtimestamp(bid.time / 1000, UTC).isoformat(" ", "minutes")[:16].split()
    return msgspec.structs.asdict(bid) | {"day": day, "minute": minute}


def q13(app: App) -> None:
    """Join bids with a bounded table."""
    side = app.global_table("side", key=int, value=dict[str, str])
    joined = bids(app).join(side, lambda bid, row: {"auction": bid.auction, "price": bid.price, **row}, key=side_key)
    joined.to("out")


def side_key(bid: Bid) -> int:
    """Return the key of the row of the bounded table."""
    return bid.auction % SIDE_ROWS


def q14(app: App) -> None:
    """Filter by a computed price, and compute columns with functions of the user."""
    large = bids(app).filter(lambda bid: 1_000_000 < DOLLARS_TO_EUROS * bid.price < 50_000_000)
    large.map_values(calculation).to("out")


def calculation(bid: Bid) -> dict[str, Any]:
    """Return the price in euros, the time of day and the number of the letter c."""
    hour = bid.time // 3_600_000 % 24
    time_of_day = "dayTime" if 8 <= hour <= 18 else "nightTime" if hour <= 6 or hour >= 20 else "otherTime"
    price = DOLLARS_TO_EUROS * bid.price
    return {"auction": bid.auction, "price": price, "time": time_of_day, "c": bid.extra.count("c")}


def q21(app: App) -> None:
    """Add the id of the channel."""
    bids(app).map_values(with_channel_id).filter(lambda bid: bid["channel_id"] is not None).to("out")


def with_channel_id(bid: Bid) -> dict[str, Any]:
    """Return a bid with the id of its channel, which may be in the URL."""
    match = CHANNEL_ID.search(bid.url)
    channel_id = CHANNEL_IDS.get(bid.channel.lower()) or (match and match[1])
    return {"auction": bid.auction, "bidder": bid.bidder, "channel": bid.channel, "channel_id": channel_id}


def q22(app: App) -> None:
    """Split the URL."""
    bids(app).map_values(directories).to("out")


def directories(bid: Bid) -> dict[str, Any]:
    """Return the first three directories of the URL of a bid."""
    first, second, third = bid.url.split("/")[3:6]
    return {"auction": bid.auction, "bidder": bid.bidder, "dir1": first, "dir2": second, "dir3": third}
