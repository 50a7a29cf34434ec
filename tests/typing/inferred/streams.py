"""What the verbs of a stream infer."""

from __future__ import annotations

from typing import Any, assert_type

from tests.typing.rides import Ride

from millstream import Alerts, App, Expr, GroupedStream, Processor, Record, Stream, Table, col, row
from millstream.alerts.events import AlertEvent

app = App("streams")
rides = app.stream("rides", value=Ride)
lines = app.stream("lines", value=str)
plain = app.stream("plain")

# One, two or three parameters.
assert_type(rides.map_values(lambda ride: ride.price), Stream[str, float])
assert_type(rides.map_values(lambda key, ride: (key, ride.zone)), Stream[str, tuple[str, int]])
assert_type(rides.map_values(lambda key, ride, context: context.timestamp), Stream[str, int])
assert_type(lines.map_values(len), Stream[str, int])
assert_type(lines.map_values(str.upper), Stream[str, str])
assert_type(lines.map_values(int, value=int), Stream[str, int])
assert_type(plain.map_values(lambda value: value["price"]), Stream[str, Any])

# Expressions.
assert_type(col("price", float), Expr[float])
assert_type(col("zone", int) > 4, Expr[bool])
assert_type(col("zone", int) / 2, Expr[float])
assert_type(rides.filter(col("price") > 3), Stream[str, Ride])
assert_type(rides.map_values(col("price", float) * 2), Stream[str, float])
assert_type(rides.map_values(col("zone").cast(str)), Stream[str, str])
assert_type(rides.map_values(row(price=col("price"))), Stream[str, dict[str, Any]])
assert_type(rides.group_by(col("zone", int)), GroupedStream[int, Ride])

assert_type(rides.filter(lambda ride: ride.price > 3), Stream[str, Ride])
assert_type(rides.filter(lambda key, ride: ride.zone == 4), Stream[str, Ride])
assert_type(rides.filter_not(lambda key, ride, context: context.partition), Stream[str, Ride])
assert_type(rides.map(lambda ride: (ride.zone, ride.price)), Stream[int, float])
assert_type(rides.map(lambda key, ride: (ride.zone, key), key=int, value=str), Stream[int, str])
assert_type(lines.flat_map_values(str.split), Stream[str, str])
assert_type(lines.flat_map(lambda line: [(word, 1) for word in line.split()]), Stream[str, int])
assert_type(rides.select_key(lambda ride: ride.zone), Stream[int, Ride])
assert_type(rides.select_key(lambda key, ride: key.encode(), key=bytes), Stream[bytes, Ride])
assert_type(rides.peek(print), Stream[str, Ride])
assert_type(rides.peek(lambda key, ride: print(key, ride.price)), Stream[str, Ride])
rides.foreach(lambda ride: print(ride.price))
rides.foreach(lambda key, ride, context: print(ride.price, context.headers))


async def price(ride: Ride) -> float:
    return ride.price


async def label(key: str, ride: Ride) -> str:
    return f"{key} {ride.zone}"


assert_type(rides.map_async(price), Stream[str, float])
assert_type(rides.map_async(label, value=str, concurrency=10, rate=50), Stream[str, str])
assert_type(rides.map_batches(lambda table: table, value=Ride), Stream[str, Ride])

assert_type(rides.merge(app.stream("rides-2", value=Ride)), Stream[str, Ride])
assert_type(rides.merge(app.stream("numbers", key=int, value=int)), Stream[str | int, Ride | int])
assert_type(rides.repartition(4), Stream[str, Ride])
assert_type(rides.to_table(name="last-ride"), Table[str, Ride])

# Groupings drop records whose key is None, so the key is not optional.
assert_type(rides.group_by_key(), GroupedStream[str, Ride])
assert_type(rides.group_by(lambda ride: ride.zone), GroupedStream[int, Ride])
assert_type(rides.group_by(lambda ride: ride.promotion), GroupedStream[str, Ride])
assert_type(rides.group_by(lambda key, ride: (key, ride.zone)), GroupedStream[tuple[str, int], Ride])

rides.to("out")
rides.to(lambda ride: f"zone-{ride.zone}")
rides.to(lambda key, ride: key, value=Ride)
rides.to(lambda key, ride, context: context.topic + ride.ride_id)

split = rides.split().branch(lambda ride: ride.price > 40, lambda dear: dear.to("dear"), name="dear")
split = split.branch(lambda key, ride: ride.zone == 1).branch(lambda key, ride, context: context.offset == 0)
split.default(lambda others: others.map_values(lambda ride: ride.zone).to("others"))
assert_type(split.branches["dear"], Stream[str, Ride])


class Priced(Processor[str, Ride, int, float]):
    """Forwards the price of each ride by its zone."""

    def process(self, record: Record[str, Ride]) -> None:
        """Forward the price."""
        self.context.forward(record, key=record.value.zone, value=record.value.price)


class Anything(Processor):
    """A processor without types."""

    def process(self, record: Record) -> None:
        """Forward the record."""
        self.context.forward(record)


assert_type(rides.process(Priced), Stream[int, float])
assert_type(rides.process_values(Priced), Stream[str, float])
assert_type(rides.process(Anything), Stream[Any, Any])
assert_type(rides.process(lambda: Priced(), name="priced"), Stream[int, float])

# Alerts: conditions take the value, or the key and the value.
hot = rides.alert("expensive", when=lambda ride: ride.price > 90, until=lambda ride: ride.price < 85, lasting="2 min")
assert_type(hot, Alerts)
assert_type(rides.alert("named", when=lambda key, ride: len(key) > 3 and ride.zone == 1), Alerts)
assert_type(hot.merge(hot), Alerts)
assert_type(hot.to_stream(), Stream[str, AlertEvent | None])
