"""Functions that do not fit the records of a stream or table."""

from __future__ import annotations

from tests.typing.rides import Ride, Zone

from millstream import App

app = App("functions")
rides = app.stream("rides", value=Ride)
zones = app.table("zones", key=int, value=Zone)


def zone_name(zone: Zone) -> str:
    """Return the name of a zone."""
    return zone.name


def by_number(number: int, ride: Ride) -> int:
    """Return a number."""
    return number + ride.zone


rides.map_values(lambda ride: ride.prize)  # refused: a misspelt field
rides.map_values(lambda key, ride: key + 1)  # refused: the key is text
rides.map_values(lambda key, ride, context: context.time)  # refused: a misspelt attribute of the context
rides.map_values(zone_name)  # refused: the stream has rides
rides.map_values(by_number)  # refused: the key is text
rides.map_values(lambda: 5)  # refused: no parameter
rides.filter(lambda a, b, c, d: True)  # refused: four parameters
rides.map_values(5)  # refused: not a function
rides.map(lambda ride: ride.zone)  # refused: not a pair
rides.flat_map_values(lambda ride: ride.zone)  # refused: not iterable
rides.select_key(lambda ride: ride.id)  # refused: a misspelt field
rides.group_by(lambda ride: ride.zone).aggregate(0, lambda n, ride: n + 1)  # refused: not a function
rides.foreach(lambda ride: print(ride.prize))  # refused: a misspelt field
rides.to(lambda ride: ride.zone)  # refused: a topic is text
rides.split().branch(lambda ride: ride.prize > 40)  # refused: a misspelt field
rides.alert("dear", when=lambda ride: ride.prize > 40)  # refused: a misspelt field
rides.alert("dear", when=lambda ride: ride.price > 40, lasting=5)  # refused: a number is not a duration
zones.filter(lambda zone: zone.zone)  # refused: a misspelt field
zones.map_values(lambda number, zone: number + zone.name)  # refused: a number and text
zones.to_stream(lambda zone: zone.number)  # refused: a misspelt field
zones.group_by(lambda zone: zone.city)  # refused: a misspelt field
app.stream("late", value=Ride, timestamp=lambda ride: ride.pickup)  # refused: a misspelt field
app.stream("later", value=Ride, timestamp=lambda ride: ride.ride_id)  # refused: text is not a time
app.stream("latest", value=Ride, timestamp="clock")  # refused: no such clock
