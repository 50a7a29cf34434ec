"""Apps for the tests of this folder; a test sets their data directory and, if needed, other settings."""

from __future__ import annotations

import msgspec

from millstream import App, Config, Processor, Record, Windowed, hopping, key_value_store, punctuate, tumbling


class Ride(msgspec.Struct):
    zone: int
    amount: float


words = App("words", config=Config(partitions=2))
(
    words.stream("lines", value=str)
    .flat_map_values(str.split)
    .group_by(lambda word: word)
    .count(name="words")
    .to_stream()
    .to("word-counts")
)

levels = App("levels", config=Config(partitions=2))
(
    levels.stream("lines", value=str)
    .flat_map_values(str.split)
    .group_by(lambda word: word)
    .count(name="counts")
    .to_stream()
    .group_by(lambda word, count: count, name="by_count")
    .count(name="reached")
    .to_stream()
    .to("reached-counts")
)

rides = App("rides", config=Config(partitions=2))
(
    rides.stream("rides", value=Ride)
    .group_by(lambda ride: ride.zone)
    .reduce(lambda best, ride: ride if ride.amount > best.amount else best, name="best")
    .to_stream()
    .to("best-rides")
)

picky = App("picky", config=Config(partitions=1))
picky.stream("numbers", value=int).map_values(lambda n: 100 // n, name="divide").to("quotients")

minutes = App("minutes", config=Config(partitions=2))
(
    minutes.stream("rides", value=Ride, timestamp=lambda ride: int(ride.amount))
    .group_by(lambda ride: ride.zone)
    .windowed_by(hopping("20 ms", every="10 ms", grace="1 h"))
    .count(name="rides_per_window")
    .to_stream()
    .to("window-counts", key=Windowed)
)

windows = App("windows", config=Config(partitions=2))
(
    windows.stream("lines", value=str)
    .flat_map_values(str.split)
    .group_by(lambda word: word)
    .windowed_by(tumbling("50 ms", grace="20 ms"))
    .count(name="windows")
    .to_stream(lambda window, _: window.key)
    .group_by(lambda word, count: count, name="by_count")
    .reduce(max, name="largest")
    .to_stream()
    .to("largest-counts")
)

people = App("people", config=Config(partitions=2))
_names, _cities = people.table("names", value=str), people.table("cities", value=str)
_names.left_join(_cities, lambda name, city: f"{name} of {city}", name="descriptions").to_stream().to("descriptions")
_cities.group_by(lambda city: city).count(name="people_per_city")

prices = App("prices", config=Config(partitions=2, caching=False))
_rates = prices.global_table("rates", value=str, name="rates")
(
    prices.stream("sales", value=str)
    .select_key(lambda sale: sale)
    .repartition()
    .join(_rates, lambda sale, rate: f"{sale} {rate}", key=lambda sale: sale[-1])
    .to("bills")
)


class Ticks(Processor):
    """Forwards the number of records so far, at an interval."""

    stores = {"seen": key_value_store()}

    def process(self, record: Record) -> None:
        seen = self.context.store("seen")
        seen.put("n", seen.get("n", 0) + 1)

    @punctuate(every="20 ms", on="wall")
    def forward_count(self, now: int) -> None:
        self.context.forward(key=str(self.context.partition), value=self.context.store("seen").get("n", 0))


ticking = App("ticking", config=Config(partitions=2, caching=False))
ticking.stream("n", value=int).process(Ticks, name="ticks").group_by_key().count(name="counts").to_stream().to("counts")

keyed = App("keyed", config=Config(partitions=2))
keyed.stream("numbers").group_by_key().count(name="numbers-by-key")
