"""Reprocessing: run version two next to version one, then switch; or reset the buggy version and run it fixed.

python -m examples.reprocessing          runs both versions on generated trips

Manually: millstream run examples/reprocessing.py:app
          millstream replay examples/reprocessing.py:fixed --as distances-2
          millstream reset distances
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import msgspec

from examples.harness import Input, run_example
from millstream import App, Config
from millstream.admin.reset import execute_reset, planned_reset


class Trip(msgspec.Struct):
    """A trip of a lorry; the key is the lorry, and some lorries report miles."""

    length: float
    unit: str


def topology(app: App, kilometres_of: Callable[[Trip], float]) -> None:
    """Build the topology; the versions differ in how they compute the length of a trip."""
    trips = app.stream("trips", key=str, value=Trip)
    trips.group_by_key().sum(kilometres_of, name="driven").to_stream().to("driven")


app = App("distances")  # version one treats miles as kilometres
topology(app, lambda trip: trip.length)


def kilometres(trip: Trip) -> float:
    """Return the length of a trip in kilometres, whatever its unit."""
    return trip.length * (1.609 if trip.unit == "mi" else 1.0)


# version two converts miles; it starts at the beginning of the log and writes to the topic distances-2.driven
fixed = App("distances-2", config=Config(output_prefix="distances-2."))
topology(fixed, kilometres)

repaired = App("distances")  # version one with the bug fixed, under its old name
topology(repaired, kilometres)


def data(seed: int = 7, trips: int = 500) -> Iterator[Input]:
    """Yield trips of ten lorries, three of which report miles; one in ten is an hour late."""
    rng = random.Random(seed)
    for number in range(trips):
        lorry = rng.randrange(10)
        trip = Trip(round(rng.uniform(20, 400), 1), "mi" if lorry < 3 else "km")
        offset = 0 if rng.random() < 0.1 else 3_600_000
        yield Input("trips", f"lorry-{lorry}", trip, number * 60_000 + offset)


def show(app: App) -> None:
    """Run version two next to version one and let a reader switch; then reset version one and run it fixed."""
    fixed.data_dir = repaired.data_dir = app.data_dir
    fixed.start("caught-up").wait()
    print("\n            version one  version two")
    for lorry, distance in sorted(app.tables["driven"].items())[:5]:
        print(f"  {lorry}   {distance:>10,.0f}   {fixed.tables['driven'][lorry]:>10,.0f}")
    print("\na reader of lorry-0 switches from one topic to the other:")
    for topic in ("driven", "distances-2.driven"):
        print(f"  {topic:<20} {latest(app, topic, 'lorry-0'):>10,.0f}")

    broker = app.broker
    plan = planned_reset(broker, app.data_dir, app.id, "earliest")
    execute_reset(broker, app.data_dir, plan)
    broker.close()
    repaired.start("caught-up").wait()
    print("\nor the buggy version is reset, fixed, and reads all trips again:")
    print(f"  {'driven':<20} {latest(app, 'driven', 'lorry-0'):>10,.0f}")


def latest(app: App, topic: str, lorry: str) -> float:
    """Return the last value of a lorry in a topic."""
    with app.consumer(topics=[topic], key=str, value=float, stop_at_end=True) as consumer:
        values: list[float] = [record.value for record in consumer if record.key == lorry]
    return values[-1]


if __name__ == "__main__":
    run_example(app, data(), show, fixed)
