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
from millstream import App
from millstream.browse.starting_over import execute_reset, planned_reset


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

fixed = App("distances-2")  # version two knows better, and begins at the start of the log
topology(fixed, lambda trip: trip.length * (1.609 if trip.unit == "mi" else 1.0))


def data(seed: int = 7, trips: int = 500) -> Iterator[Sent]:
    """Yield trips of ten lorries, three of which report miles."""
    pick = random.Random(seed)
    for number in range(trips):
        lorry = pick.randrange(10)
        trip = Trip(round(pick.uniform(20, 400), 1), "mi" if lorry < 3 else "km")
        yield Sent("trips", f"lorry-{lorry}", trip, number * 60_000)


def show(app: App) -> None:
    """Run version two beside version one, compare, and then let the buggy one begin anew."""
    fixed.data_dir = app.data_dir
    fixed.start("caught-up").wait()
    print("\n            version one  version two")
    for lorry, wrong in sorted(app.tables["driven"].items())[:5]:
        print(f"  {lorry}   {wrong:>10,.0f}   {fixed.tables['driven'][lorry]:>10,.0f}")
    print("\nboth read the same log; readers switch by reading the output of distances-2")

    broker = app.broker
    plan = planned_reset(broker, app.data_dir, app.id, "earliest")
    execute_reset(broker, app.data_dir, plan)
    broker.close()
    print("distances was reset: it would read all trips again, with whatever program is started under that name")


if __name__ == "__main__":
    play(app, data(), show)
