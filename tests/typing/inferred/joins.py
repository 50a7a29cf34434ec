"""What joins infer: a partner that can be missing is optional."""

from __future__ import annotations

from typing import assert_type

from tests.typing.rides import Ride, Zone

from millstream import App, Stream, Table, join_window

app = App("joins")
rides = app.stream("rides", value=Ride)
tips = app.stream("tips", value=float)
drivers = app.table("drivers", value=str, history="1 min")
cars = app.table("cars", value=int)
zones = app.table("zones", key=int, value=Zone)
rates = app.global_table("rates", key=int, value=float)
names = app.global_table("names", value=str)
within = join_window("1 min")

# Streams
assert_type(rides.join(tips, lambda ride, tip: ride.price + tip, within=within), Stream[str, float])
assert_type(rides.join(tips, lambda key, ride, tip: (key, tip), within=within), Stream[str, tuple[str, float]])
assert_type(rides.left_join(tips, lambda ride, tip: tip, within=within), Stream[str, float | None])
assert_type(
    rides.outer_join(tips, lambda ride, tip: (ride, tip), within=within), Stream[str, tuple[Ride | None, float | None]]
)

# Tables
assert_type(rides.join(drivers, lambda ride, driver: driver.upper(), grace="1 s"), Stream[str, str])
assert_type(rides.left_join(drivers, lambda ride, driver: driver), Stream[str, str | None])
assert_type(rides.select_key(lambda ride: ride.zone).join(zones, lambda ride, zone: zone.name), Stream[int, str])

# Global tables: by the key of the record, or by any key
assert_type(rides.join(names, lambda ride, name: name + ride.ride_id), Stream[str, str])
assert_type(rides.join(rates, lambda ride, rate: ride.price * rate, key=lambda ride: ride.zone), Stream[str, float])
assert_type(rides.left_join(rates, lambda ride, rate: rate, key=lambda key, ride: ride.zone), Stream[str, float | None])

# Two tables, by key and by foreign key
assert_type(drivers.join(cars, lambda driver, car: (driver, car)), Table[str, tuple[str, int]])
assert_type(drivers.left_join(cars, lambda driver, car: car), Table[str, int | None])
assert_type(drivers.outer_join(cars, lambda driver, car: (driver, car)), Table[str, tuple[str | None, int | None]])
latest = rides.to_table()
assert_type(latest.join(zones, lambda ride, zone: zone.name, on=lambda ride: ride.zone), Table[str, str])
assert_type(latest.left_join(zones, lambda ride, zone: zone, on=lambda key, ride: ride.zone), Table[str, Zone | None])
