"""What the verbs of tables and grouped tables infer."""

from __future__ import annotations

from typing import assert_type

from tests.typing.rides import Ride, Zone

from millstream import App, Stream, Table, ValueTransformer, until_time_limit
from millstream.dsl.grouped_table import GroupedTable

app = App("tables")
zones = app.table("zones", key=int, value=Zone)
rides = app.table("rides", value=Ride)

assert_type(zones.to_stream(), Stream[int, Zone])
assert_type(zones.to_stream(lambda zone: zone.name), Stream[str, Zone])
assert_type(zones.to_stream(lambda number, zone: (number, zone.name)), Stream[tuple[int, str], Zone])
assert_type(zones.filter(lambda zone: zone.borough), Table[int, Zone])
assert_type(zones.filter_not(lambda number, zone: number > 9), Table[int, Zone])
assert_type(zones.map_values(lambda zone: zone.name), Table[int, str])
assert_type(zones.map_values(lambda number, zone: f"{number} {zone.name}", value=str, name="names"), Table[int, str])
assert_type(rides.suppress(until_time_limit("5 s")), Table[str, Ride])

by_borough = zones.group_by(lambda zone: zone.borough)
assert_type(by_borough, GroupedTable[str, Zone])
assert_type(
    zones.group_by(lambda number, zone: zone.borough, values=lambda zone: len(zone.name)), GroupedTable[str, int]
)
assert_type(by_borough.count(), Table[str, int])
assert_type(by_borough.aggregate(lambda: 0, lambda n, zone: n + len(zone.name), lambda n, zone: n - 1), Table[str, int])
lengths = zones.group_by(lambda zone: zone.borough, values=lambda number, zone: number)
assert_type(lengths.reduce(lambda a, b: a + b, lambda a, b: a - b), Table[str, int])
assert_type(lengths.sum(), Table[str, int])


class Shown(ValueTransformer[int, Zone, str]):
    """Shows a zone as text."""

    def transform(self, key: int, value: Zone | None) -> str | None:
        """Return the name of the zone."""
        return None if value is None else f"{key}: {value.name}"


assert_type(zones.transform_values(Shown), Table[int, str])
