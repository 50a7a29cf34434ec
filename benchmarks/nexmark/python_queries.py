"""The queries of Nexmark, q0 to q22, with the verbs of Millstream; all write to the topic ``out``, q10 to files.

Where SQL joins two unbounded streams by an id, one side is a table here: a person and an auction are read before the
auctions and bids that name them, because inputs are processed in order of time. The value of a result has all columns.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec
from benchmarks.nexmark.model import Auction, Bid, Person
from benchmarks.nexmark.sources import auctions, bids, day_of, people
from benchmarks.nexmark.stateless_queries import q0, q1, q2, q10, q13, q14, q21, q22

from millstream import (
    App,
    Stream,
    Windowed,
    count_distinct_of,
    count_of,
    hopping,
    max_of,
    mean_of,
    min_of,
    session,
    sum_of,
    tumbling,
)
from millstream.dsl.measures import Measure

GRACE = "1 min"
LOW, HIGH = 10_000, 1_000_000
"""The limits of the three classes of prices."""
Query = Callable[[App], None]


class Winner(msgspec.Struct):
    """A bid, and the auction that it is for."""

    auction: Auction
    bid: Bid


class Leaders(msgspec.Struct):
    """What has the highest number in a window, and that number."""

    start: int
    number: int
    names: list[Any]


class Sold(msgspec.Struct):
    """The highest bid for an item so far."""

    auction: int
    price: int


def q3(app: App) -> None:
    """Find people of three states who sell in a category."""
    sellers = people(app).filter(lambda person: person.state in {"OR", "ID", "CA"})
    offers = app.stream("auction", key=int, value=Auction).filter(lambda auction: auction.category == 10)
    offers.select_key(lambda auction: auction.seller).join(sellers, offer_by).to("out")


def offer_by(auction: Auction, person: Person) -> dict[str, Any]:
    """Return an auction and who sells."""
    return {"name": person.name, "city": person.city, "state": person.state, "auction": auction.id}


def valid_bids(app: App) -> Stream[int, Winner]:
    """Join bids with their auctions, and drop those that came too late."""
    by_auction = bids(app).select_key(lambda bid: bid.auction)
    joined = by_auction.join(auctions(app), lambda bid, auction: Winner(auction, bid))
    return joined.filter(lambda winner: winner.auction.time <= winner.bid.time <= winner.auction.expires)


def q4(app: App) -> None:
    """Average the final prices of each category."""
    final = valid_bids(app).group_by_key().reduce(higher, name="final")
    by_category = final.group_by(lambda winner: winner.auction.category, values=lambda winner: winner.bid.price)
    averages = by_category.mean(name="averages")
    averages.to_stream().map_values(lambda category, average: {"category": category, "average": average}).to("out")


def higher(winner: Winner, other: Winner) -> Winner:
    """Return the higher of two bids, the earlier one if they are equal."""
    return min(winner, other, key=lambda winner: (-winner.bid.price, winner.bid.time))


def lead(start: int, leaders: Leaders, candidate: tuple[Any, int]) -> Leaders:
    """Add a candidate with its number, which never falls."""
    name, number = candidate
    if number > leaders.number:
        return Leaders(start, number, [name])
    if number == leaders.number and name not in leaders.names:
        return Leaders(start, number, sorted([*leaders.names, name]))
    return leaders


def leaders_of(counts: Stream[Windowed[Any], Any], candidate: Callable[[Any, Any], tuple[Any, int]]) -> None:
    """Write the leaders of each window."""
    by_window = counts.map(lambda window, value: (window.start, candidate(window, value)))
    by_window.group_by_key().aggregate(lambda: Leaders(-1, -1, []), lead, name="leaders").to_stream().to("out")


def q5(app: App) -> None:
    """Find the auctions with the most bids in the last ten seconds, every two seconds."""
    grouped = bids(app).group_by(lambda bid: bid.auction)
    counts = grouped.windowed_by(hopping("10 s", every="2 s", grace=GRACE)).count(name="counts")
    leaders_of(counts.to_stream(), lambda window, count: (window.key, count))


def q6(app: App) -> None:
    """Average the highest bids for the last ten items of each seller."""
    final = valid_bids(app).group_by_key().reduce(higher, name="final")
    by_seller = final.group_by(
        lambda winner: winner.auction.seller, values=lambda winner: Sold(winner.auction.id, winner.bid.price)
    )
    prices = by_seller.aggregate(dict, with_sold, without_sold, value=dict[int, int], name="prices")
    prices.to_stream().map_values(lambda seller, prices: {"seller": seller, "average": last_ten(prices)}).to("out")


def with_sold(prices: dict[int, int], sold: Sold) -> dict[int, int]:
    """Add the price of an item."""
    return prices | {sold.auction: sold.price}


def without_sold(prices: dict[int, int], sold: Sold) -> dict[int, int]:
    """Remove an item, whose price has changed."""
    return {auction: price for auction, price in prices.items() if auction != sold.auction}


def last_ten(prices: dict[int, int]) -> float:
    """Return the average price of the ten items that were put up last."""
    last = [prices[auction] for auction in sorted(prices)[-10:]]
    return sum(last) / len(last)


def q7(app: App) -> None:
    """Find the highest bid of each ten seconds: per auction first, so that all tasks take part."""
    grouped = bids(app).group_by(lambda bid: bid.auction)
    highest = grouped.windowed_by(tumbling("10 s", grace=GRACE)).max(lambda bid: (bid.price, bid.bidder, bid.time))
    leaders_of(highest.to_stream(), lambda window, bid: ([window.key, bid[1], bid[2]], bid[0]))


def q8(app: App) -> None:
    """Find people who sold something within the ten seconds in which they registered."""
    windows = tumbling("10 s", grace=GRACE)
    joined = app.stream("person", key=int, value=Person).group_by_key().windowed_by(windows).last("name", name="new")
    sellers = app.stream("auction", key=int, value=Auction).group_by(lambda auction: auction.seller)
    sold = sellers.windowed_by(windows).count(name="sold")
    in_both = joined.join(sold, lambda name, _: name)
    in_both.to_stream().map(lambda window, name: of_window(window, name=name)).to("out")


def of_window(window: Windowed[Any], **columns: Any) -> tuple[Any, dict[str, Any]]:
    """Return the key and the value of a result."""
    return window.key, {"id": window.key, "start": window.start, **columns}


def q9(app: App) -> None:
    """Find the winning bid of each auction."""
    winners = valid_bids(app).group_by_key().reduce(higher, name="winners")
    winners.to_stream().map_values(lambda winner: expanded(winner.bid, winner.auction)).to("out")


def expanded(bid: Bid, auction: Auction) -> dict[str, Any]:
    """Return a bid and its auction."""
    return {"id": auction.id, "item": auction.item, "seller": auction.seller, "category": auction.category} | {
        "bidder": bid.bidder,
        "price": bid.price,
        "time": bid.time,
    }


def q11(app: App) -> None:
    """Count the bids of each session of a bidder."""
    grouped = bids(app).group_by(lambda bid: bid.bidder)
    counts = grouped.windowed_by(session(gap="10 s", grace=GRACE)).count(name="sessions").to_stream()
    counts.map(session_count).to("out")


def session_count(window: Windowed[int], count: int | None) -> tuple[int, dict[str, Any]]:
    """Return the bids of a session; None if it was merged into another."""
    return of_window(window, count=count)


def q12(app: App) -> None:
    """Count the bids of each bidder in windows of processing time."""
    grouped = bids(app, timestamp="wall_clock").group_by(lambda bid: bid.bidder)
    counts = grouped.windowed_by(tumbling("10 s", grace="0 s")).count(name="counts").to_stream()
    counts.map(lambda window, count: of_window(window, count=count)).to("out")


def field_if(field: str, lowest: int, end: int, bid: Bid) -> Any:
    """Return a field of a bid whose price is in a class, else None."""
    return getattr(bid, field) if lowest <= bid.price < end else None


CLASSES = {"low": (0, LOW), "middle": (LOW, HIGH), "high": (HIGH, 10**12)}


def classes_of(aggregation: Callable[[Callable[..., Any]], Measure], field: str) -> dict[str, Any]:
    """Return an aggregation of a field for each class of prices."""
    return {name: aggregation(partial(field_if, field, *limits)) for name, limits in CLASSES.items()}


def statistics() -> dict[str, Any]:
    """Return the aggregations of q15 and q16: bids, bidders and auctions, in total and for each class of prices."""
    result: dict[str, Any] = {"bids": count_of()}
    result |= {f"bids_{name}": count for name, count in classes_of(count_of, "price").items()}
    for field in ("bidder", "auction"):
        result[f"{field}s"] = count_distinct_of(field)
        result |= {f"{field}s_{name}": count for name, count in classes_of(count_distinct_of, field).items()}
    return result


def q15(app: App) -> None:
    """Count bids, bidders and auctions of each day."""
    days = bids(app).group_by(day_of).agg(**statistics(), name="days")
    days.to_stream().map_values(lambda day, row: {"day": day, **row}).to("out")


def q16(app: App) -> None:
    """Count bids, bidders and auctions of each channel and day."""
    by_channel = bids(app).group_by(lambda bid: (bid.channel, day_of(bid)))
    channels = by_channel.agg(minute=max_of(lambda bid: bid.time // 60_000), **statistics(), name="channels")
    channels.to_stream().map_values(lambda key, row: {"channel": key[0], "day": key[1], **row}).to("out")


def q17(app: App) -> None:
    """Compute statistics of each auction and day."""
    by_auction = bids(app).group_by(lambda bid: (bid.auction, day_of(bid)))
    rows = by_auction.agg(
        bids=count_of(),
        **{f"bids_{name}": count for name, count in classes_of(count_of, "price").items()},
        low=min_of("price"),
        high=max_of("price"),
        average=mean_of("price"),
        total=sum_of("price"),
        name="auctions",
    )
    rows.to_stream().map_values(lambda key, row: {"auction": key[0], "day": key[1], **row}).to("out")


def q18(app: App) -> None:
    """Find the last bid of each bidder for each auction."""
    grouped = bids(app).group_by(lambda bid: (bid.bidder, bid.auction))
    grouped.reduce(lambda bid, other: max(bid, other, key=lambda bid: bid.time), name="last").to_stream().to("out")


def q19(app: App) -> None:
    """Find the ten highest bids of each auction."""
    top = bids(app).group_by(lambda bid: bid.auction).top(10, "price", name="top")
    top.to_stream().map_values(lambda auction, prices: {"auction": auction, "prices": prices}).to("out")


def q20(app: App) -> None:
    """Add the auction to the bids of a category."""
    by_auction = bids(app).select_key(lambda bid: bid.auction)
    toys = auctions(app).filter(lambda auction: auction.category == 10)
    by_auction.join(toys, expanded).to("out")


QUERIES: dict[str, Query] = {
    query.__name__: query
    for query in (
        q0,
        q1,
        q2,
        q3,
        q4,
        q5,
        q6,
        q7,
        q8,
        q9,
        q10,
        q11,
        q12,
        q13,
        q14,
        q15,
        q16,
        q17,
        q18,
        q19,
        q20,
        q21,
        q22,
    )
}
