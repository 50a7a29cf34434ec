"""Sensors: thermometers with wrong clocks, some of them offline for a while, some falling silent.

python -m examples.sensors               runs it on generated readings
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator

import msgspec

from examples.harness import Input, run_example
from millstream import App, Record, Windowed, device_clock, max_of, mean_of, min_of, tumbling

MINUTE = 60_000
IDLE = "5 s"
"""In production, longer than records take to arrive; short here so that the example ends quickly."""


class Reading(msgspec.Struct):
    """A temperature; both times are from the clock of the thermometer, which is the key."""

    celsius: float
    occurred: int
    sent: int


app = App("sensors")

# the record's own timestamp is when the gateway received it: that clock is right, and sent - occurred is trusted;
# when no readings arrive for a while, stream time follows the wall clock
readings = app.stream(
    "readings",
    key=str,
    value=Reading,
    timestamp=device_clock(occurred="occurred", sent="sent"),
    on_invalid="skip",
    idle_after=IDLE,
)

# a device that was offline sends its readings in a batch, up to ten minutes late
per_minute = readings.group_by_key().windowed_by(tumbling("1 min", grace="10 min"), late_to="readings.late")
per_minute.agg(
    low=min_of("celsius"), high=max_of("celsius"), mean=mean_of("celsius"), name="per_minute", retention="6 h"
)

# each minute once, after it has closed; the retention covers jumps of stream time after a silence
closed = readings.group_by_key().windowed_by(tumbling("1 min", grace="10 min")).emit("final")
minutes = closed.agg(high=max_of("celsius"), name="closed", retention="6 h").to_stream()
minutes.to("minutes", key=Windowed)
minutes.filter(lambda value: value["high"] > 30).to("too-hot", key=Windowed)

_OFFLINE = range(10, 18)
_OFFLINE_TOO_LONG = range(25, 45)


def data(seed: int = 7, minutes: int = 60, start: int | None = None) -> Iterator[Input]:
    """Yield an hour of readings that ended 15 minutes ago, from eight thermometers with different clock errors.

    t5 is offline for eight minutes and then sends all its readings; t6 is offline for twenty, so most of its readings
    are late; t7 falls silent.
    """
    rng = random.Random(seed)
    first = time.time_ns() // 1_000_000 - (minutes + 15) * MINUTE if start is None else start
    first -= first % MINUTE
    clock_errors = {f"t{number}": rng.randrange(-86_400_000, 86_400_000) for number in range(8)}
    buffered: dict[str, list[tuple[int, float]]] = {"t5": [], "t6": []}
    for minute in range(minutes):
        for name, clock_error in clock_errors.items():
            now = first + minute * MINUTE + rng.randrange(50_000)
            celsius = round(20 + 6 * rng.random() + (8 if name == "t2" and 20 <= minute < 25 else 0), 1)
            if name == "t7" and minute > 40:
                continue  # silent from now on
            if (name == "t5" and minute in _OFFLINE) or (name == "t6" and minute in _OFFLINE_TOO_LONG):
                buffered[name].append((now, celsius))
                continue
            for measured_at, old_celsius in buffered.get(name, ()):
                yield Input("readings", name, Reading(old_celsius, measured_at + clock_error, now + clock_error), now)
            if name in buffered:
                buffered[name].clear()
            yield Input("readings", name, Reading(celsius, now + clock_error, now + clock_error), now)


def show(app: App) -> None:
    """Print the minutes of each thermometer, then wait until the open ones are closed by the wall clock."""
    table = app.tables["per_minute"]
    print("\nthermometer  minutes  mean of the last minute")
    for number in range(8):
        rows = table.windows(f"t{number}")
        print(f"  t{number}         {len(rows):>4}     {rows[-1].value['mean']:.1f} °C")
    with app.consumer(topics=["readings.late"], key=str) as consumer:
        late = consumer.poll("1 s")
    print(f"\n{len(late)} readings, all from {_keys(late)}, were too late and were written to readings.late")

    with app.consumer(topics=["minutes"], key=Windowed) as consumer:
        closed = len(consumer.poll("1 s"))
        print(f"\n{closed} minutes are closed, {len(table) - closed} are open, and no more readings arrive …")
        run, deadline = app.start(), time.monotonic() + 60
        while closed < len(table) and time.monotonic() < deadline:
            closed += len(consumer.poll("1 s"))
        run.stop()
        run.wait()
    print(f"{IDLE} later, stream time follows the wall clock: {closed} minutes are closed, {len(table) - closed} open")
    with app.consumer(topics=["too-hot"], key=Windowed) as consumer:
        hot = consumer.poll("1 s")
    print(f"\n{len(hot)} minutes were too hot, all from {', '.join(sorted({record.key.key for record in hot}))}")


def _keys(records: list[Record]) -> str:
    return ", ".join(sorted({str(record.key) for record in records}))


if __name__ == "__main__":
    run_example(app, data(), show)
