"""What aggregations of grouped and windowed streams and of grouped tables infer."""

from __future__ import annotations

from typing import Any, assert_type

import msgspec
from tests.typing.rides import Ride

from millstream import App, Table, Windowed, count_of, max_of, mean_of, session, tumbling


class Prices(msgspec.Struct):
    """The prices of a zone."""

    high: float
    average: float


def add_price(total: float, ride: Ride) -> float:
    """Return the total with the price of a ride."""
    return total + ride.price


def add_price_of(_zone: int, total: float, ride: Ride) -> float:
    """Return the total with the price of a ride."""
    return total + ride.price


app = App("aggregations")
rides = app.stream("rides", value=Ride)
by_zone = rides.group_by(lambda ride: ride.zone)
numbers = app.stream("numbers", value=int).group_by_key()

assert_type(by_zone.count(), Table[int, int])
assert_type(numbers.reduce(max), Table[str, int])
assert_type(numbers.reduce(lambda total, n: total + n), Table[str, int])
assert_type(numbers.reduce(lambda key, total, n: total + n + len(key)), Table[str, int])
assert_type(by_zone.aggregate(lambda: 0.0, lambda total, ride: total + ride.price), Table[int, float])
assert_type(by_zone.aggregate(lambda: 0.0, lambda zone, total, ride: total + ride.price * zone), Table[int, float])
assert_type(by_zone.aggregate(float, add_price), Table[int, float])
assert_type(by_zone.aggregate(lambda: 0.0, add_price_of), Table[int, float])
# An empty list does not say what it is a list of; value= does.
assert_type(by_zone.aggregate(list, lambda seen, ride: [*seen, ride.ride_id], value=list[str]), Table[int, list[str]])

# Ready-made aggregations: of the value, a field, or what a function selects.
assert_type(numbers.sum(), Table[str, int])
assert_type(by_zone.sum("price"), Table[int, Any])
assert_type(by_zone.sum(lambda ride: ride.price), Table[int, float])
assert_type(by_zone.max(lambda zone, ride: ride.price * zone), Table[int, float])
assert_type(by_zone.first(lambda ride: ride.promotion), Table[int, str])
assert_type(by_zone.mean(lambda ride: ride.price), Table[int, float])
assert_type(by_zone.quantile(0.99, "price"), Table[int, float])
assert_type(by_zone.count_distinct(lambda ride: ride.ride_id), Table[int, int])
assert_type(by_zone.collect(lambda ride: ride.ride_id), Table[int, list[str]])
assert_type(by_zone.collect_set("ride_id"), Table[int, list[Any]])
assert_type(by_zone.top(3), Table[int, list[Ride]])
assert_type(by_zone.top(3, lambda ride: ride.ride_id, by="price"), Table[int, list[str]])
assert_type(by_zone.agg(high=max_of("price"), rides=count_of()), Table[int, dict[str, Any]])
assert_type(by_zone.agg(value=Prices, high=max_of("price"), average=mean_of("price")), Table[int, Prices])

# Windows: the key is a Windowed key.
per_minute = by_zone.windowed_by(tumbling("1 min")).emit("final")
assert_type(per_minute.count(), Table[Windowed[int], int])
assert_type(per_minute.sum(lambda ride: ride.price), Table[Windowed[int], float])
assert_type(per_minute.aggregate(lambda: 0.0, add_price), Table[Windowed[int], float])
assert_type(
    per_minute.count().to_stream().map(lambda window, n: (window.key, n)).group_by_key().count(), Table[int, int]
)
sessions = by_zone.windowed_by(session(gap="5 min"))
assert_type(
    sessions.aggregate(lambda: 0.0, lambda total, ride: total + ride.price, lambda left, right: left + right),
    Table[Windowed[int], float],
)
assert_type(
    sessions.aggregate(lambda: 0.0, add_price_of, lambda zone, left, right: left + right), Table[Windowed[int], float]
)
assert_type(numbers.windowed_by(session(gap="1 s")).reduce(lambda a, b: a + b), Table[Windowed[str], int])

# Cogrouped streams share the type of the aggregate.
fines = app.stream("fines", key=int, value=float).group_by_key()


def add_fine(total: float, fine: float) -> float:
    """Return the total with a fine."""
    return total + fine


both = by_zone.cogroup(add_price).cogroup(fines, add_fine)
assert_type(both.aggregate(lambda: 0.0), Table[int, float])
assert_type(both.windowed_by(tumbling("1 min")).aggregate(lambda: 0.0), Table[Windowed[int], float])
