"""Steps that do not fit the result of the step before."""

from __future__ import annotations

from tests.typing.rides import LongRide, Ride, Zone

from millstream import App, Processor, Record, Stream, Table, Windowed, tumbling

app = App("chains")
rides = app.stream("rides", value=Ride)
by_zone = rides.group_by(lambda ride: ride.zone)


def joined(text: str, ride: Ride) -> str:
    """Return a text with the id of a ride."""
    return text + ride.ride_id


class Priced(Processor[str, Zone, str, str]):
    """Forwards the name of each zone."""

    def process(self, record: Record[str, Zone]) -> None:
        """Forward the name."""
        self.context.forward(record, value=record.value.name)
        self.context.forward(record, value=5)  # refused: it forwards text


rides.map_values(lambda ride: ride.price).map_values(lambda price: price.upper())  # refused: a number
rides.map_values(lambda ride: ride.zone).filter(lambda zone: zone.name)  # refused: a number
rides.select_key(lambda ride: ride.zone).map_values(lambda zone, ride: zone.upper())  # refused: the key is a number
by_zone.count().to_stream().map_values(lambda n: n.price)  # refused: a number
by_zone.windowed_by(tumbling("1 s")).count().to_stream().map(lambda key, n: (key + 1, n))  # refused: a window
by_zone.aggregate(lambda: 0, lambda n, ride: n + ride.ride_id)  # refused by pyright: a number and text
by_zone.aggregate(lambda: 0, lambda n, ride: n + ride.ride_id, value=int)  # refused: a number and text
by_zone.aggregate(lambda: 0, lambda n, ride: ride.ride_id, value=int)  # refused: text is not the aggregate
by_zone.aggregate(lambda: 0, joined)  # refused: the aggregate is a number
by_zone.reduce(lambda a, b: a.price + b.price)  # refused: a number is not a ride
by_zone.sum(lambda ride: ride.prize)  # refused: a misspelt field
by_zone.mean(lambda zone, ride: ride.prize)  # refused: a misspelt field
by_zone.windowed_by("1 min")  # refused: not a window
rides.process(Priced)  # refused: it processes zones
rides.count()  # refused: not grouped
rides.to_stream()  # refused: not a table
rides.group_by_key().to("out")  # refused: not aggregated
by_zone.count().select_key(lambda n: n)  # refused: not a stream

longer: Stream[str, LongRide] = rides  # refused: not every ride is a long one
names: Table[int, str] = by_zone.count()  # refused: numbers
windows: Table[int, int] = by_zone.windowed_by(tumbling("1 s")).count()  # refused: keys are windows
keys: Windowed[str] = Windowed(5, 0, 1)  # refused: the key is a number
