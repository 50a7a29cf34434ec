"""Joins that cannot work."""

from __future__ import annotations

from tests.typing.rides import Ride, Zone

from millstream import App, join_window

app = App("joins")
rides = app.stream("rides", value=Ride)
tips = app.stream("tips", value=float)
drivers = app.table("drivers", value=str)
zones = app.table("zones", key=int, value=Zone)
rates = app.global_table("rates", key=int, value=float)
within = join_window("1 min")

rides.join(tips, lambda ride, tip: ride.price + tip)  # refused: no window
rides.join(drivers, lambda ride, driver: driver, within=within)  # refused: a table has no window
rides.join(zones, lambda ride, zone: zone.name)  # refused: keys are text and numbers
rides.join(rates, lambda ride, rate: rate)  # refused: keys are text and numbers
rides.join(rates, lambda ride, rate: rate, key=lambda ride: ride.ride_id)  # refused by mypy: the key is a number
rides.join(drivers, lambda ride, driver: driver.name)  # refused: a driver is text
rides.left_join(drivers, lambda ride, driver: driver.upper())  # refused: there may be no driver
rides.left_join(tips, lambda ride, tip: ride.price + tip, within=within)  # refused: there may be no tip
rides.outer_join(tips, lambda ride, tip: ride.price, within=within)  # refused: there may be no ride
rides.outer_join(drivers, lambda ride, driver: driver, within=within)  # refused: not a stream
rides.join(drivers, lambda ride: ride.price)  # refused: a joiner has two values
drivers.join(zones, lambda driver, zone: zone.name)  # refused: keys are text and numbers
drivers.join(zones, lambda driver, zone: zone.name, on=lambda driver: driver)  # refused by mypy: the key is a number
drivers.left_join(zones, lambda driver, zone: zone.name, on=len)  # refused: there may be no zone
drivers.join(tips, lambda driver, tip: tip)  # refused: not a table
