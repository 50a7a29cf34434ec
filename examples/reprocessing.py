"""Reprocessing: version two of a program beside version one, then the switch; and a buggy program that is reset.

python -m examples.reprocessing          runs both versions on made-up trips

By hand:  millstream run examples/reprocessing.py:app
          millstream replay examples/reprocessing.py:fixed --as distances-2
          millstream reset distances
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import msgspec

from examples.playing import Sent, play
from millstream import App, Config
from millstream.admin.reset import execute_reset, planned_reset


class Trip(msgspec.Struct):
    """A trip of a lorry, which is the key; some lorries report miles."""

    length: float
    unit: str


def topology(app: App, kilometres_of: Callable[[Trip], float]) -> None:
    """Write the program; the versions differ in how they understand a trip."""
    trips = app.stream("trips", key=str, value=Trip)
    trips.group_by_key().sum(kilometres_of, name="driven").to_stream().to("driven")


app = App("distances")  # version one takes miles for kilometres
topology(app, lambda trip: trip.length)


def kilometres(trip: Trip) -> float:
    """Return how long a trip was, whatever unit it was told in."""
    return trip.length * (1.609 if trip.unit == "mi" else 1.0)


# version two knows better; it begins at the start of the log, and writes to the topic distances-2.driven
fixed = App("distances-2", config=Config(output_prefix="distances-2."))
topology(fixed, kilometres)

repaired = App("distances")  # version one with the bug mended, under its old name
topology(repaired, kilometres)


def data(seed: int = 7, trips: int = 500) -> Iterator[Sent]:
    """Yield trips of ten lorries, three of which report miles; one in ten is told an hour late."""
    pick = random.Random(seed)
    for number in range(trips):
        lorry = pick.randrange(10)
        trip = Trip(round(pick.uniform(20, 400), 1), "mi" if lorry < 3 else "km")
        late = 0 if pick.random() < 0.1 else 3_600_000
        yield Sent("trips", f"lorry-{lorry}", trip, number * 60_000 + late)


def show(app: App) -> None:
    """Run version two beside version one and let a reader switch; then reset version one and run it repaired."""
    fixed.data_dir = repaired.data_dir = app.data_dir
    fixed.start("caught-up").wait()
    print("\n            version one  version two")
    for lorry, wrong in sorted(app.tables["driven"].items())[:5]:
        print(f"  {lorry}   {wrong:>10,.0f}   {fixed.tables['driven'][lorry]:>10,.0f}")
    print("\na reader of lorry-0 switches from one topic to the other:")
    for topic in ("driven", "distances-2.driven"):
        print(f"  {topic:<20} {newest(app, topic, 'lorry-0'):>10,.0f}")

    broker = app.broker
    plan = planned_reset(broker, app.data_dir, app.id, "earliest")
    execute_reset(broker, app.data_dir, plan)
    broker.close()
    repaired.start("caught-up").wait()
    print("\nor the buggy one is reset, mended, and reads all trips again:")
    print(f"  {'driven':<20} {newest(app, 'driven', 'lorry-0'):>10,.0f}")


def newest(app: App, topic: str, lorry: str) -> float:
    """Return what a topic says last about a lorry."""
    with app.consumer(topics=[topic], key=str, value=float, stop_at_end=True) as consumer:
        told: list[float] = [record.value for record in consumer if record.key == lorry]
    return told[-1]


if __name__ == "__main__":
    play(app, data(), show, fixed)
